"""What every driver of records must do. Each check gets empty records."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta

from schemas.episode import End, EpisodeResult, EpisodeSpec, PolicySpec, Validity
from schemas.grade import Score
from schemas.host import Capacity, HostBeat
from schemas.task import Limits
from tiltyard.ports import Records

__all__ = ["RECORDS_CHECKS", "RecordsCheck"]

RecordsCheck = Callable[[Records], Awaitable[None]]


def _spec(episode_id: str, seed: int = 0) -> EpisodeSpec:
    return EpisodeSpec(
        episode_id=episode_id,
        task_id="shop/reply-lost/1",
        task_digest="sha256:0",
        world="shop",
        policy=PolicySpec(target="reference"),
        seed=seed,
        limits=Limits(),
    )


def _result(episode_id: str, end: End = End.SUBMITTED) -> EpisodeResult:
    return EpisodeResult(
        episode_id=episode_id,
        task="shop/reply-lost/1",
        policy="reference",
        seed=0,
        end=end,
        validity=Validity.VALID,
        reason="Zoë said so",
        score=Score(total=0.8, completion=1),
        timings={"turns": 0.25},
        answer={"replacement_id": "R-1"},
    )


async def what_was_never_recorded_is_none(records: Records) -> None:
    assert await records.spec("ep") is None
    assert await records.result("ep") is None
    assert await records.episodes() == ()


async def a_plan_is_read_back_whole_and_stands(records: Records) -> None:
    await records.plan([_spec("ep", seed=7)])
    await records.plan([_spec("ep", seed=8)])
    assert await records.spec("ep") == _spec("ep", seed=7)


async def a_plan_with_one_known_trial_still_records_the_others(records: Records) -> None:
    await records.plan([_spec("a")])
    await records.plan([_spec("a", seed=9), _spec("b"), _spec("b", seed=9)])
    assert [spec for spec, _ in await records.episodes()] == [_spec("b"), _spec("a")]


async def an_empty_plan_is_allowed(records: Records) -> None:
    await records.plan([])
    assert await records.episodes() == ()


async def the_first_outcome_stands_and_is_returned(records: Records) -> None:
    await records.plan([_spec("ep")])
    assert await records.record(_result("ep")) == _result("ep")
    assert await records.record(_result("ep", End.TERMINATED)) == _result("ep")
    assert await records.result("ep") == _result("ep")


async def of_outcomes_at_once_one_stands_for_all(records: Records) -> None:
    await records.plan([_spec("ep")])
    returned = await asyncio.gather(*(records.record(_result("ep", end)) for end in End))
    assert len({result.end for result in returned}) == 1
    assert await records.result("ep") == returned[0]


async def planned_trials_come_newest_first_with_their_outcome_or_none(records: Records) -> None:
    await records.plan([_spec(f"ep-{n}") for n in range(5)])
    await records.record(_result("ep-3"))
    rows = [(spec.episode_id, result) for spec, result in await records.episodes(limit=3)]
    assert rows == [("ep-4", None), ("ep-3", _result("ep-3")), ("ep-2", None)]


async def all_are_read_a_few_at_a_time_each_once(records: Records) -> None:
    await records.plan([_spec(f"ep-{n}") for n in range(5)])
    await records.record(_result("ep-1"))
    found = list(await records.episodes(limit=2))
    while page := await records.episodes(limit=2, before=found[-1][0].episode_id):
        assert len(page) <= 2
        found += page
        await records.plan([_spec("later")])
    assert [spec.episode_id for spec, _ in found] == ["ep-4", "ep-3", "ep-2", "ep-1", "ep-0"]
    assert [result for _, result in found] == [None, None, None, _result("ep-1"), None]
    assert await records.episodes(before="nobody") == ()


async def every_planned_trial_stays_in_the_denominator(records: Records) -> None:
    await records.plan([_spec(f"ep-{n}") for n in range(60)])
    await asyncio.gather(*(records.record(_result(f"ep-{n}")) for n in range(0, 60, 2)))
    rows = await records.episodes(limit=1000)
    assert len(rows) == 60
    assert sum(result is None for _, result in rows) == 30


async def only_old_plans_without_an_outcome_are_unfinished(records: Records) -> None:
    await records.plan([_spec("a"), _spec("b"), _spec("c")])
    await records.record(_result("b"))
    assert await records.unfinished(timedelta(0)) == (_spec("a"), _spec("c"))
    assert await records.unfinished(timedelta(hours=1)) == ()


def _beat(host: str, task_queue: str = "tiltyard", free: int = 4) -> HostBeat:
    return HostBeat(host=host, task_queue=task_queue, capacity=Capacity(slots=8, free=free))


async def the_last_beat_of_each_host_is_told_and_how_long_ago_it_was(records: Records) -> None:
    for beat in (_beat("b"), _beat("a", free=1), _beat("a", free=7), _beat("c", "another-queue")):
        await records.beat(beat)
    first = await records.hosts("tiltyard")
    assert [(one.host, one.capacity.slots, one.capacity.free) for one in first] == [("a", 8, 7), ("b", 8, 4)]
    assert all(0 <= one.silent_s < 60 for one in first)
    await records.beat(_beat("a"))
    (a, b), (_, before) = await records.hosts("tiltyard"), first
    assert b.silent_s >= before.silent_s
    assert a.silent_s <= b.silent_s
    assert await records.hosts("nobody") == ()


RECORDS_CHECKS: tuple[RecordsCheck, ...] = (
    what_was_never_recorded_is_none,
    a_plan_is_read_back_whole_and_stands,
    a_plan_with_one_known_trial_still_records_the_others,
    an_empty_plan_is_allowed,
    the_first_outcome_stands_and_is_returned,
    of_outcomes_at_once_one_stands_for_all,
    planned_trials_come_newest_first_with_their_outcome_or_none,
    all_are_read_a_few_at_a_time_each_once,
    every_planned_trial_stays_in_the_denominator,
    only_old_plans_without_an_outcome_are_unfinished,
    the_last_beat_of_each_host_is_told_and_how_long_ago_it_was,
)
