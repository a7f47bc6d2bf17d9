"""Supervisors that die, do not answer, answer nonsense or do not drain, and a disk that is full meanwhile."""

import asyncio
import logging
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from infra.sandboxes.host import SandboxHost
from schemas.sandbox import SandboxRef
from tests.contract.sandboxes.host_yard import SHORT, SLEEP, TRUE, Yard, open_yard, order, sealed, states, waits
from tiltyard.errors import BadInput, LateWrite, SandboxLost


@pytest.fixture
async def yard(tmp_path: Path) -> AsyncIterator[Yard]:
    async with open_yard(tmp_path / "sandboxes") as made:
        yield made


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
