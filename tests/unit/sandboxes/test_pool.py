"""How many containers wait, which of them is taken, and which ones are ended: without a container."""

import time
from pathlib import Path
from typing import Any

import pytest

from infra.sandboxes.docker.demand import WINDOW_S, burst, target
from infra.sandboxes.docker.member import Kind, Member
from infra.sandboxes.docker.pool import BACK_OFF_S, MOST_SERVED, OLDEST_S, SPARE_S, Keeper, Need, Pool
from tiltyard.errors import EnvironmentFailed

KIND = Kind(image="sha256:1", supervisor=Path("/s"), memory_bytes=2**27, processes=72, runtime="runc")
OTHER = KIND.model_copy(update={"image": "sha256:2"})


@pytest.mark.parametrize(
    ("arrivals", "now", "refill_s", "most", "wanted"),
    [
        ([], 100.0, 0.5, 8, 0),
        ([100.0], 100.0, 0.5, 8, 2),  # one while one is made, and one in reserve
        ([100.0], 130.0, 0.5, 8, 2),
        ([100.0], 100.0 + WINDOW_S, 0.5, 8, 0),  # long ago
        ([100.0 + second for second in range(30)], 130.0, 0.5, 8, 2),
        ([100.0 + second / 4 for second in range(120)], 130.0, 1.0, 99, 4 + 5),  # 4 a second, 5 within a second
        ([100.0] * 8, 110.0, 0.5, 99, 9),  # all at once
        ([100.0] * 8, 110.0, 0.5, 4, 4),
    ],
)
def test_as_many_wait_as_come_while_one_is_made_and_a_reserve(
    arrivals: list[float], now: float, refill_s: float, most: int, wanted: int
) -> None:
    assert target(arrivals, now, refill_s, most) == wanted


def test_a_burst_is_what_comes_within_a_time_wherever_it_lies() -> None:
    assert burst([0.0, 5.0, 5.1, 5.4, 5.6, 9.0], 0.5) == 3
    assert burst([0.0, 0.5], 0.5) == 2
    assert burst([], 0.5) == 0


class Yard:
    """A pool whose containers are names, and whose clock is turned by hand."""

    def __init__(self, most: int, takes_s: float = 0.5, of: type[Pool] = Pool) -> None:
        self.clock, self.takes_s = 1000.0, takes_s
        self.made, self.ended = 0, list[str]()
        self.failing: Exception | None = None
        self.unending: Exception | None = None
        self.pool = of(self._make, self._end, most, clock=lambda: self.clock, now=lambda: self.clock)

    def member(self, **fields: Any) -> Member:
        self.made += 1
        plain = {"folder": Path(f"/c/{self.made}"), "kind": KIND, "born": self.clock, "state": "idle"}
        return Member.model_validate({**plain, **fields})

    def _make(self, kind: Kind) -> Member:
        if self.failing:
            raise self.failing
        self.clock += self.takes_s
        return self.member(kind=kind)

    def _end(self, folder: Path) -> bool:
        self.ended.append(folder.name)
        if self.unending:
            raise self.unending
        return True

    def tended(self) -> None:
        """Its thread has nothing to do any more."""
        while self.pool.tend():
            pass


ANY, UNUSED = Need(KIND, unused=False), Need(KIND, unused=True)


def test_what_is_asked_for_is_made_beforehand() -> None:
    yard = Yard(most=8)
    assert yard.pool.take(UNUSED) is None
    yard.tended()
    assert len(yard.pool) == 2
    first, second = yard.pool.take(UNUSED), yard.pool.take(UNUSED)
    assert first is not None
    assert second is not None
    assert first.folder != second.folder, "one was handed out twice"


def test_no_more_wait_than_may() -> None:
    yard = Yard(most=3)
    for _ in range(9):
        yard.pool.take(ANY)
    yard.tended()
    assert len(yard.pool) == 3
    given = yard.member()
    assert yard.pool.give(given)
    assert (len(yard.pool), yard.ended) == (3, [given.folder.name])


def test_a_used_one_that_comes_back_has_the_room_of_one_that_was_made_meanwhile() -> None:
    yard = Yard(most=1)
    assert yard.pool.take(ANY) is None
    yard.tended()
    used = yard.member(served=1)
    assert yard.pool.give(used)
    assert (len(yard.pool), yard.ended) == (1, ["1"])
    assert yard.pool.take(ANY) == used


def test_a_used_one_has_no_room_of_one_that_has_to_be_unused() -> None:
    yard = Yard(most=1)
    assert yard.pool.take(UNUSED) is None
    yard.tended()
    assert yard.pool.give(yard.member(served=1))
    assert (len(yard.pool), yard.ended) == (1, ["2"])


def test_who_is_missed_least_makes_room() -> None:
    yard = Yard(most=3)
    for kind in (KIND, OTHER, OTHER):
        assert yard.pool.give(yard.member(kind=kind))
    assert yard.pool.take(ANY) is not None
    assert yard.pool.give(yard.member(served=1))
    assert yard.pool.give(yard.member(served=1))
    assert yard.ended == ["2"], "nobody has asked for that kind"


def test_without_a_pool_nothing_waits() -> None:
    yard = Yard(most=0)
    assert yard.pool.take(ANY) is None
    yard.tended()
    given = yard.member(served=1)
    assert yard.pool.give(given)
    assert (len(yard.pool), yard.ended) == (0, [given.folder.name])


def test_used_ones_are_for_those_who_do_not_mind() -> None:
    yard = Yard(most=8)
    used, unused = yard.member(served=1), yard.member()
    assert yard.pool.give(unused)
    assert yard.pool.give(used)
    assert yard.pool.take(Need(OTHER, unused=False)) is None
    assert yard.pool.take(ANY) == used
    assert yard.pool.take(UNUSED) == unused
    assert yard.pool.give(used)
    assert yard.pool.take(UNUSED) is None


@pytest.mark.parametrize("fields", [{"served": MOST_SERVED}, {"born": 1000.0 - OLDEST_S}])
def test_what_is_worn_out_or_old_does_not_wait(fields: dict[str, Any]) -> None:
    yard = Yard(most=8)
    assert yard.pool.give(yard.member(**fields))
    assert (len(yard.pool), yard.ended) == (0, ["1"])


def test_one_that_grows_old_while_it_waits_is_ended_and_not_given_out() -> None:
    yard = Yard(most=8)
    assert yard.pool.give(yard.member(born=1000.0 - OLDEST_S + 1))
    yard.clock += 2
    assert yard.pool.take(ANY) is None
    assert yard.pool.tend()
    assert yard.ended == ["1"]


def test_what_nobody_asks_for_any_more_is_ended_after_a_while() -> None:
    yard = Yard(most=8)
    yard.pool.take(ANY)
    yard.tended()
    yard.clock += WINDOW_S + SPARE_S + 1
    yard.tended()
    assert (len(yard.pool), sorted(yard.ended)) == (0, ["1", "2"])


def test_a_used_one_that_was_just_given_back_is_kept_for_a_while() -> None:
    yard = Yard(most=8)
    assert yard.pool.give(yard.member(served=3))
    yard.clock += SPARE_S / 2
    yard.tended()
    assert len(yard.pool) == 1


FAILURES = [EnvironmentFailed("the engine is away"), KeyError("State"), TypeError("nonsense")]
"""What an engine may do to whoever asks it, foreseen or not."""


@pytest.mark.parametrize("failure", FAILURES, ids=repr)
def test_what_cannot_be_made_is_tried_again_later(failure: Exception) -> None:
    yard = Yard(most=8)
    yard.failing = failure
    yard.pool.take(ANY)
    assert yard.pool.tend()
    assert not yard.pool.tend(), "it is tried again at once"
    yard.failing = None
    yard.clock += BACK_OFF_S
    yard.tended()
    assert len(yard.pool) == 2


def test_a_closed_pool_has_none_and_takes_none() -> None:
    yard = Yard(most=8)
    assert yard.pool.give(yard.member(served=1))
    yard.pool.close()
    assert yard.pool.give(yard.member(served=1))
    assert (len(yard.pool), yard.ended) == (0, ["1", "2"])


@pytest.mark.parametrize("failure", FAILURES, ids=repr)
def test_one_that_cannot_be_ended_keeps_nobody_from_the_others(failure: Exception) -> None:
    yard = Yard(most=3)
    for _ in range(3):
        assert yard.pool.give(yard.member())
    yard.unending = failure
    assert not yard.pool.give(yard.member())
    yard.clock += SPARE_S + 1
    assert yard.pool.tend()
    yard.pool.close()
    assert sorted(yard.ended) == ["1", "2", "3", "4"]


class Unsteady(Pool):
    """Fails in a way that nobody foresaw, the first time that it is tended."""

    failed = False

    def tend(self) -> bool:
        if not self.failed:
            self.failed = True
            raise RuntimeError("nobody foresaw this")
        return super().tend()


def test_its_thread_outlives_an_error_that_nobody_foresaw() -> None:
    yard = Yard(most=2, of=Unsteady)
    keeper = Keeper(yard.pool, pause_s=0.01)
    assert yard.pool.take(ANY) is None
    keeper.wake()
    while len(yard.pool) < 2:
        time.sleep(0.001)
    keeper.close()
    assert len(yard.ended) == 2


def test_its_thread_does_all_of_it_and_ends_with_it() -> None:
    yard = Yard(most=2)
    keeper = Keeper(yard.pool)
    assert yard.pool.take(ANY) is None
    keeper.wake()
    while len(yard.pool) < 2:
        time.sleep(0.001)
    keeper.close()
    assert (len(yard.pool), sorted(yard.ended)) == (0, ["1", "2"])
    keeper.wake()
    assert yard.pool.give(yard.member(served=1))
    assert (len(yard.pool), yard.ended[-1]) == (0, "3")
