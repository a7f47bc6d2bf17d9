"""The host over a driver without processes: slots, incarnations, losses, drains, and what an earlier host left."""

import asyncio
import json
import logging
import shutil
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from infra.sandboxes.held import HeldSandbox
from infra.sandboxes.host import SandboxHost
from infra.sandboxes.inheritance import AT_ONCE
from infra.sandboxes.records import Kept, counts
from schemas.sandbox import SandboxRef
from tests.contract.sandboxes.host_yard import SHORT, SLEEP, TRUE, Yard, open_yard, order, states, waits
from tests.contract.sandboxes.memory_launcher import MemoryLauncher
from tiltyard.errors import (
    BadInput,
    EnvironmentFailed,
    LateWrite,
    SandboxLost,
    SandboxOutOfMemory,
    SandboxUnavailable,
)


@pytest.fixture
async def yard(tmp_path: Path) -> AsyncIterator[Yard]:
    async with open_yard(tmp_path / "sandboxes") as made:
        yield made


async def test_slots_are_given_in_the_order_of_asking_and_a_cancelled_one_leaves_the_queue(yard: Yard) -> None:
    host = await yard.start(slots=1)
    first = await host.provision(order("first"))
    cancelled, second, third = [await waits(host, order(name)) for name in ("cancelled", "second", "third")]
    cancelled.cancel()
    await host.release(first)
    assert (await second).name == "second"
    assert not third.done()
    await host.release(await second)
    assert (await third).name == "third"
    assert [one.asked[0] for one in yard.launcher.launched] == ["setup"] * 3, "one was made for nobody"


async def test_one_asker_may_go_and_the_others_still_get_it(yard: Yard) -> None:
    host = await yard.start(slots=1)
    first = await host.provision(order("first"))
    one, other = await waits(host, order("shared")), await waits(host, order("shared"))
    one.cancel()
    await host.release(first)
    assert (await other).name == "shared"


async def test_a_provision_that_was_cancelled_may_be_asked_for_again_at_once(yard: Yard) -> None:
    host = await yard.start(slots=1)
    first = await host.provision(order("first"))
    waiting = await waits(host, order("again"))
    waiting.cancel()
    again = await waits(host, order("again"))
    await host.release(first)
    assert (await again).name == "again"


async def test_a_release_ends_a_provision_that_waits(yard: Yard) -> None:
    host = await yard.start(slots=1)
    await host.provision(order("first"))
    waiting = await waits(host, order("given-up"))
    await host.release(SandboxRef(driver="bubblewrap", name="given-up", incarnation=1))
    with pytest.raises(SandboxLost):
        await waiting
    with pytest.raises(SandboxLost):
        await host.provision(order("given-up"))


async def test_a_release_in_the_middle_of_a_launch_leaves_nothing(yard: Yard) -> None:
    """The removal must not find nothing and then be overtaken by the creation."""
    host = await yard.start()
    making = await waits(host, order())
    while not yard.launcher.places:
        await asyncio.sleep(0)
    await host.release(SandboxRef(driver="bubblewrap", name="one", incarnation=1))
    await asyncio.wait([making])
    assert (await states(host), yard.launcher.places) == ({}, set())


async def test_the_next_incarnation_takes_over_the_slot(yard: Yard) -> None:
    host = await yard.start(slots=1)
    await host.provision(order("one"))
    waiting = await waits(host, order("other"))
    later = await host.provision(order("one", 2))
    assert not waiting.done()
    await host.release(later)
    await waiting
    assert await states(host) == {"other/1": "live"}


async def test_a_higher_incarnation_takes_the_place_of_one_that_waits(yard: Yard) -> None:
    host = await yard.start(slots=1)
    first = await host.provision(order("first"))
    lower, higher = await waits(host, order("one", 1)), await waits(host, order("one", 2))
    await host.release(first)
    assert (await higher).incarnation == 2
    with pytest.raises(SandboxLost):
        await lower
    assert await states(host) == {"one/2": "live"}


async def test_a_launch_that_fails_leaves_nothing_and_may_be_tried_again(yard: Yard) -> None:
    host = await yard.start(slots=1)
    for crash, expected in (
        (OSError("no more processes"), EnvironmentFailed),
        (SandboxUnavailable("it cannot"), SandboxUnavailable),
        (RuntimeError("a bug"), RuntimeError),
    ):
        yard.launcher.crash = crash
        with pytest.raises(expected):
            await host.provision(order())
        assert (await states(host), yard.launcher.places, list(yard.folder.iterdir())) == ({}, set(), [])
    yard.launcher.crash = None
    assert await host.provision(order())


async def test_a_driver_that_fails_at_an_end_is_asked_again(yard: Yard, caplog: pytest.LogCaptureFixture) -> None:
    host = await yard.start(slots=1)
    ref = await host.provision(order())

    def fail() -> None:
        raise OSError("the engine hung up")

    yard.launcher.while_ending = fail
    with caplog.at_level(logging.ERROR):
        yard.last.die()
        while "cannot be ended" not in caplog.text:
            await asyncio.sleep(0)
        await host.release(ref)
    assert await states(host) == {"one/1": "lost"}
    yard.launcher.while_ending = lambda: None
    await host.release(ref)
    await host.provision(order("next"))


async def test_many_that_an_earlier_host_left_are_ended_at_once(yard: Yard) -> None:
    """Most of it is waiting for what was killed to go."""
    host = await yard.start(slots=50)
    for number in range(50):
        await host.provision(order(f"many{number}"))
    together = threading.Barrier(2)
    yard.launcher.while_ending = lambda: together.wait(30)
    later = await yard.start(slots=50)
    yard.launcher.while_ending = lambda: None
    assert set((await states(later)).values()) == {"lost"}
    assert yard.launcher.places == set()
    assert 1 < yard.launcher.at_once <= AT_ONCE


@pytest.mark.parametrize("how", ["mute", "deadly"])
async def test_a_supervisor_that_fails_at_its_setup_is_nobodys_loss(yard: Yard, how: str) -> None:
    host = await yard.start(slots=1, patience=SHORT)
    getattr(yard.launcher, how).add("setup")
    with pytest.raises(EnvironmentFailed, match="could not be made") as raised:
        await host.provision(order())
    assert not isinstance(raised.value, SandboxLost), "which would never be tried again"
    getattr(yard.launcher, how).clear()
    await host.provision(order())


async def test_a_driver_that_does_not_work_says_so_before_any_queue(yard: Yard) -> None:
    yard.launcher.problem = "user namespaces are closed"
    host = await yard.start()
    with pytest.raises(SandboxUnavailable, match="bubblewrap: user namespaces are closed; mend it"):
        await host.provision(order())
    with pytest.raises(SandboxUnavailable, match="use `--sandbox bubblewrap`"):
        await host.provision(order().model_copy(update={"driver": "docker"}))


async def test_a_driver_is_tried_out_until_it_works(yard: Yard) -> None:
    """What was wrong may have been mended, or may have passed, and nobody starts the host anew for it."""
    host = await yard.start()
    yard.launcher.open = EnvironmentFailed("too many open files")
    with pytest.raises(EnvironmentFailed, match="too many open files"):
        await host.provision(order())
    yard.launcher.open, yard.launcher.problem = None, "user namespaces are closed"
    assert not (await host.offer("bubblewrap")).available
    yard.launcher.problem = ""
    await host.provision(order())
    await host.provision(order("another"))
    assert yard.launcher.trials == 3


async def test_all_who_ask_at_once_share_one_trial(yard: Yard) -> None:
    host = await yard.start()
    yard.launcher.problem = "user namespaces are closed"
    asked = [asyncio.create_task(host.offer("bubblewrap")) for _ in range(20)]
    await asyncio.sleep(0)
    asked[0].cancel()
    assert {offer.available for offer in await asyncio.gather(*asked[1:])} == {False}
    assert yard.launcher.trials == 1


async def test_a_supervisor_that_dies_loses_its_sandbox_and_what_was_in_flight(yard: Yard) -> None:
    host = await yard.start(slots=1)
    ref = await host.provision(order())
    asked = asyncio.create_task(host.call(ref, SLEEP))
    while "call" not in yard.last.asked:
        await asyncio.sleep(0)
    yard.last.die()
    with pytest.raises(SandboxLost):
        await asked
    while yard.launcher.places:
        await asyncio.sleep(0)
    assert await states(host) == {"one/1": "lost"}
    for again in (host.provision(order()), host.call(ref, SLEEP), host.seal(ref), host.drain(ref)):
        with pytest.raises(SandboxLost):
            await again
    waiting = await waits(host, order("other"))
    await host.release(ref)
    await waiting
    assert await states(host) == {"other/1": "live"}


Asking = Callable[[SandboxHost, SandboxRef], Awaitable[object]]
ASKED: dict[str, Asking] = {
    "call": lambda host, ref: host.call(ref, TRUE.model_copy(update={"timeout_s": 0.01})),
    "snapshot": lambda host, ref: host.snapshot(ref, {}),
    "settle": lambda host, ref: host.settle(ref, 0),
    "seal": lambda host, ref: host.seal(ref),
}


@pytest.mark.parametrize("do", ASKED)
async def test_a_supervisor_that_does_not_answer_is_killed(yard: Yard, do: str) -> None:
    host = await yard.start(patience=SHORT)
    ref = await host.provision(order())
    yard.launcher.mute.add(do)
    with pytest.raises(SandboxLost, match=f"did not answer '{do}'"):
        await ASKED[do](host, ref)
    assert yard.last.killed
    assert await states(host) == {"one/1": "lost"}


def no_room_for_a_record(yard: Yard) -> None:
    """As on a full disk: nothing can be written where the records are."""
    for folder in yard.folder.iterdir():
        shutil.rmtree(folder)
        folder.write_text("")


@pytest.mark.parametrize("do", ASKED)
async def test_a_full_disk_saves_no_supervisor_that_does_not_answer(
    yard: Yard, do: str, caplog: pytest.LogCaptureFixture
) -> None:
    host = await yard.start(patience=SHORT)
    ref = await host.provision(order())
    yard.launcher.mute.add(do)
    no_room_for_a_record(yard)
    with caplog.at_level(logging.ERROR), pytest.raises(SandboxLost, match=f"did not answer '{do}'"):
        await ASKED[do](host, ref)
    assert (yard.last.killed, yard.launcher.places) == (True, set())
    assert "the record of the sandbox one/1 cannot be written" in caplog.text
    assert await states(host) == {"one/1": "lost"}


async def test_a_full_disk_keeps_no_sandbox_from_its_end(yard: Yard, caplog: pytest.LogCaptureFixture) -> None:
    host = await yard.start(slots=1)
    ref = await host.provision(order())
    no_room_for_a_record(yard)
    yard.launcher.stuck = True
    with caplog.at_level(logging.ERROR):
        await host.seal(ref)
        assert await host.drain(ref) == await host.drain(ref)
        await host.release(ref)
        assert await states(host) == {"one/1": "lost"}
        yard.launcher.stuck = False
        await host.release(ref)
    assert (await states(host), yard.launcher.places) == ({}, set())
    for file in yard.folder.iterdir():
        file.unlink()
    await host.provision(order("next"))


async def test_a_supervisor_that_dies_on_a_full_disk_is_ended_all_the_same(
    yard: Yard, caplog: pytest.LogCaptureFixture
) -> None:
    host = await yard.start()
    ref = await host.provision(order())
    no_room_for_a_record(yard)
    yard.launcher.deadly.add("call")
    with caplog.at_level(logging.ERROR):
        with pytest.raises(SandboxLost):
            await host.call(ref, TRUE)
        while yard.launcher.places:
            await asyncio.sleep(0)
    assert await states(host) == {"one/1": "lost"}


@pytest.mark.parametrize("do", ["call", "snapshot"])
async def test_a_supervisor_that_answers_nonsense_is_not_trusted(yard: Yard, do: str) -> None:
    host = await yard.start()
    ref = await host.provision(order())
    yard.launcher.says[do] = {"entries": 7, "op_id": None}
    with pytest.raises(SandboxLost, match=f"answered '{do}' with what is no"):
        await ASKED[do](host, ref)
    assert yard.last.killed


async def sealed(host: SandboxHost) -> SandboxRef:
    ref = await host.provision(order())
    await host.seal(ref)
    return ref


async def test_nothing_reaches_a_supervisor_that_may_not_have_heard_of_the_seal(yard: Yard) -> None:
    host = await yard.start()
    ref = await host.provision(order())
    yard.launcher.mute.add("seal")
    sealing = asyncio.create_task(host.seal(ref))
    while "seal" not in yard.last.asked:
        await asyncio.sleep(0)
    with pytest.raises(LateWrite):
        await host.call(ref, TRUE)
    assert "call" not in yard.last.asked
    sealing.cancel()


@pytest.mark.parametrize("how", ["mute", "deadly"])
async def test_a_supervisor_that_does_not_drain_is_drained_from_outside(yard: Yard, how: str) -> None:
    host = await yard.start(patience=SHORT)
    ref = await sealed(host)
    yard.last.strangers = 3
    getattr(yard.launcher, how).add("drain")
    drain = await host.drain(ref)
    assert (drain.found, drain.ended_by_term, drain.ended_by_kill, drain.empty) == (3, 0, 3, True)
    assert yard.last.killed
    assert await host.drain(ref) == drain
    told = await host.facts(ref)
    assert (told.from_journal, told.drain) == (True, drain)


async def test_a_drain_is_not_believed_that_looks_otherwise_from_outside(yard: Yard) -> None:
    host = await yard.start(patience=SHORT.model_copy(update={"drain_s": 10, "answer_s": 10}))
    ref = await sealed(host)
    yard.last.strangers = 1
    assert not (await host.drain(ref)).empty


async def test_what_is_killed_takes_a_moment_to_go(yard: Yard) -> None:
    host = await yard.start()
    ref = await sealed(host)
    yard.last.strangers = 1
    draining = asyncio.create_task(host.drain(ref))
    while "drain" not in yard.last.asked:
        await asyncio.sleep(0)
    yard.last.strangers = 0
    assert (await draining).empty


async def test_the_order_of_the_end_is_kept(yard: Yard) -> None:
    host = await yard.start()
    ref = await host.provision(order())
    with pytest.raises(BadInput, match="seal it first"):
        await host.drain(ref)
    await host.seal(ref)
    with pytest.raises(BadInput, match="drain it first"):
        await host.facts(ref)


async def test_a_cancelled_release_goes_on(yard: Yard) -> None:
    host = await yard.start()
    ref = await host.provision(order())
    release = asyncio.create_task(host.release(ref))
    await asyncio.sleep(0)
    release.cancel()
    while await host.sandboxes():
        await asyncio.sleep(0)
    assert yard.launcher.places == set()


async def test_one_that_is_lost_while_it_is_given_up_leaves_no_record(tmp_path: Path) -> None:
    async def end() -> bool:
        await asyncio.sleep(0)
        return True

    held = HeldSandbox(Kept.of(order()), tmp_path / "one", end, SHORT)
    held.now()
    await asyncio.gather(held.give_up(), held.lose("it did not answer"))
    assert not (tmp_path / "one").exists()


async def test_two_releases_at_once_give_back_one_slot(yard: Yard) -> None:
    host = await yard.start(slots=1)
    ref = await host.provision(order())
    await asyncio.gather(host.release(ref), host.release(ref))
    await host.provision(order("next"))
    waiting = await waits(host, order("one too many"))
    waiting.cancel()


class Slow:
    """Ends and sweeps of a driver that wait until the test has done something else meanwhile."""

    def __init__(self, launcher: MemoryLauncher) -> None:
        self._begun, self._enough = threading.Event(), threading.Event()
        self.alone = False
        launcher.while_ending = self._wait

    def _wait(self) -> None:
        self._begun.set()
        self.alone = not self._enough.wait(10)
        assert not self.alone, "nothing else is done while a sandbox is ended"

    async def begun(self) -> None:
        assert await asyncio.to_thread(self._begun.wait, 10)

    def enough(self) -> None:
        self._enough.set()


async def test_others_are_served_while_one_is_ended(yard: Yard) -> None:
    host = await yard.start()
    ref = await host.provision(order())
    slow = Slow(yard.launcher)
    releasing = asyncio.create_task(host.release(ref))
    await slow.begun()
    other = await host.provision(order("other"))
    assert (await host.call(other, TRUE)).exec is not None
    slow.enough()
    await releasing


async def test_others_are_served_while_what_an_earlier_host_left_is_ended(yard: Yard) -> None:
    await (await yard.start()).provision(order())
    slow = Slow(yard.launcher)
    starting = asyncio.create_task(yard.start())
    await slow.begun()
    slow.enough()
    assert await states(await starting) == {"one/1": "lost"}
    assert not slow.alone


async def test_a_sandbox_is_ended_by_one_at_a_time(yard: Yard) -> None:
    """Who ends it because its supervisor is gone is told to stop by a release, and has begun."""
    host = await yard.start(slots=1)
    ref = await host.provision(order())
    slow = Slow(yard.launcher)
    yard.last.die()
    await slow.begun()
    releasing = asyncio.create_task(host.release(ref))
    for _ in range(10):
        await asyncio.sleep(0)
    assert not releasing.done()
    slow.enough()
    await releasing
    assert yard.launcher.at_once == 1


async def test_what_outlives_a_kill_keeps_its_slot(yard: Yard, caplog: pytest.LogCaptureFixture) -> None:
    host = await yard.start(slots=1)
    ref = await host.provision(order())
    yard.launcher.stuck = True
    with caplog.at_level(logging.ERROR):
        await host.release(ref)
    assert "one/1 is left after a kill" in caplog.text
    assert await states(host) == {"one/1": "lost"}
    waiting = await waits(host, order("other"))
    yard.launcher.stuck = False
    await host.release(ref)
    await waiting
    assert await states(host) == {"other/1": "live"}


async def test_a_command_that_the_machine_killed_is_told_as_such_and_stays_so(yard: Yard) -> None:
    host = await yard.start()
    ref = await host.provision(order())
    killed = {"exec": {"exit_code": None, "signal": "SIGKILL"}}
    balloon, plain = (TRUE.model_copy(update={"op_id": name}) for name in ("balloon", "plain"))
    for request, kills in ((plain, 0), (balloon, 1), (plain, 2), (balloon, 2)):
        asked = asyncio.create_task(host.call(ref, request))
        yard.launcher.says["call"] = {"op_id": request.op_id, **killed}
        await asyncio.sleep(0)
        yard.last.memory = kills
        reply = await asked
        assert reply.exec is not None
        assert reply.exec.out_of_memory == (request is balloon)


async def killed_for_memory(yard: Yard, host: SandboxHost, ref: SandboxRef, kills: int) -> None:
    """The supervisor dies in a command, and so many were killed for want of memory meanwhile."""
    asked = asyncio.create_task(host.call(ref, SLEEP))
    while "call" not in yard.last.asked:
        await asyncio.sleep(0)
    yard.last.memory += kills
    yard.last.die()
    with pytest.raises(SandboxLost) as raised:
        await asked
    assert isinstance(raised.value, SandboxOutOfMemory) == (kills > 0), raised.value


@pytest.mark.parametrize("kills", [0, 2])
async def test_a_loss_for_want_of_memory_is_told_as_one_and_stays_one(
    yard: Yard, kills: int, caplog: pytest.LogCaptureFixture
) -> None:
    kind = SandboxOutOfMemory if kills else SandboxLost
    host = await yard.start()
    ref = await host.provision(order())
    with caplog.at_level(logging.WARNING):
        await killed_for_memory(yard, host, ref, kills)
        while counts(yard.folder) != {"lost": 1}:
            await asyncio.sleep(0)
    assert ("ended 2 processes in it for want of memory" in caplog.text) == (kills > 0)
    for one in (host, await yard.start()):
        with pytest.raises(SandboxLost) as raised:
            await one.snapshot(ref, {})
        assert type(raised.value) is kind


async def test_a_kill_for_want_of_memory_that_the_supervisor_outlived_is_to_blame_for_no_loss(yard: Yard) -> None:
    host = await yard.start()
    ref = await host.provision(order())
    yard.last.memory = 3
    await host.call(ref, TRUE)
    await killed_for_memory(yard, host, ref, 0)


async def test_a_supervisor_that_does_not_answer_while_memory_is_wanting(yard: Yard) -> None:
    host = await yard.start(patience=SHORT)
    ref = await sealed(host)
    yard.launcher.mute.add("snapshot")
    asked = asyncio.create_task(host.snapshot(ref, {}))
    while "snapshot" not in yard.last.asked:
        await asyncio.sleep(0)
    yard.last.memory = 1
    with pytest.raises(SandboxOutOfMemory, match=r"did not answer 'snapshot' .* want of memory"):
        await asked


async def test_the_end_of_a_host_is_no_want_of_memory(yard: Yard) -> None:
    host = await yard.start()
    ref = await host.provision(order())
    yard.last.memory = 1
    await host.__aexit__()
    with pytest.raises(SandboxLost) as raised:
        await (await yard.start()).snapshot(ref, {})
    assert type(raised.value) is SandboxLost


async def test_the_end_of_a_host_ends_its_sandboxes_and_the_next_one_tells_of_them(yard: Yard) -> None:
    host = await yard.start()
    ref = await host.provision(order())
    await host.__aexit__()
    assert (yard.last.killed, yard.launcher.places) == (True, set())
    assert await states(await yard.start()) == {"one/1": "lost"}
    with pytest.raises(SandboxLost):
        await yard.hosts[-1].call(ref, TRUE)


async def test_a_killed_host_is_swept_by_the_next_and_its_sandboxes_are_lost(yard: Yard) -> None:
    host = await yard.start()
    await host.provision(order("live"))
    await host.seal(await host.provision(order("sealed", 3)))
    assert counts(yard.folder) == {"live": 1, "sealed": 1}
    later = await yard.start(slots=2)
    assert yard.launcher.places == set()
    assert {str(one["place"]) for one in yard.launcher.swept} == {folder.name for folder in yard.folder.iterdir()}
    assert counts(yard.folder) == {"lost": 2}
    assert await states(later) == {"live/1": "lost", "sealed/3": "lost"}
    assert {one.episode_id for one in await later.sandboxes()} == {"of live", "of sealed"}
    for gone in (order("live"), order("sealed", 2), order("sealed", 3)):
        with pytest.raises(SandboxLost):
            await later.provision(gone)
    await later.provision(order("live", 2))
    await later.release(SandboxRef(driver="bubblewrap", name="sealed", incarnation=3))
    assert await states(later) == {"live/2": "live"}


async def test_a_host_that_was_killed_in_the_middle_of_a_launch_leaves_nothing(yard: Yard) -> None:
    host = await yard.start()
    yard.launcher.mute.add("setup")
    making = await waits(host, order())
    while not yard.launcher.launched or "setup" not in yard.last.asked:
        await asyncio.sleep(0)
    yard.launcher.mute.clear()
    later = await yard.start()
    assert (await states(later), yard.launcher.places, list(yard.folder.iterdir())) == ({}, set(), [])
    assert (await later.provision(order())).incarnation == 1, "nobody has seen it"
    yard.launcher.launched[0].die()
    await asyncio.wait([making])


DAMAGE: dict[str, Callable[[Path], object]] = {
    "emptied": lambda record: record.write_bytes(b""),
    "cut": lambda record: record.write_bytes(record.read_bytes()[:40]),
    "binary": lambda record: record.write_bytes(b"\xff\x00"),
    "of another kind": lambda record: record.write_text(json.dumps({"ref": {"driver": "magic"}})),
    "gone": Path.unlink,
}


@pytest.mark.parametrize("damage", DAMAGE)
async def test_a_record_that_cannot_be_read_is_swept_and_stops_nobody(yard: Yard, damage: str) -> None:
    host = await yard.start()
    await host.provision(order())
    DAMAGE[damage](next(yard.folder.iterdir()) / "record.json")
    later = await yard.start()
    assert (yard.launcher.places, list(yard.folder.iterdir()), await states(later)) == (set(), [], {})


async def test_what_cannot_be_swept_is_kept_and_told(yard: Yard, caplog: pytest.LogCaptureFixture) -> None:
    await (await yard.start()).provision(order())
    yard.launcher.stuck = True
    with caplog.at_level(logging.ERROR):
        later = await yard.start()
    assert "one/1 is left after a kill" in caplog.text
    assert await states(later) == {"one/1": "lost"}
    assert (await later.provision(order("other"))).name == "other"


async def test_many_at_once_keep_to_the_slots_and_leave_nothing(yard: Yard) -> None:
    """Provisions of several incarnations, cancels and releases in all orders."""
    host = await yard.start(slots=3)

    async def episode(number: int) -> None:
        ref = SandboxRef(driver="bubblewrap", name=f"e{number % 7}", incarnation=1 + number // 7)
        task = asyncio.create_task(host.provision(order(ref.name, ref.incarnation)))
        for _ in range(number % 5):
            await asyncio.sleep(0.001)
        if number % 4 == 0:
            task.cancel()
        await asyncio.wait([task])
        if number % 3 == 0 and not task.cancelled() and task.exception() is None:
            yard.launcher.launched[-1].die()
        await host.release(ref)

    await asyncio.gather(*(episode(number) for number in range(70)))
    assert (await states(host), yard.launcher.places, list(yard.folder.iterdir())) == ({}, set(), [])
    held = [await host.provision(order(f"after{number}")) for number in range(3)]
    assert len(held) == 3, "a slot has leaked"
    await waits(host, order("one too many"))
