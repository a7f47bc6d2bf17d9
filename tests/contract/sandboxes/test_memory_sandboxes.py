"""What tests can do to the fake: hold a command, lose a sandbox, cut the host off."""

import asyncio

import pytest

from tiltyard.errors import SandboxLost, SandboxUnavailable, SandboxUnreachable
from tiltyard.testing.memory_sandboxes import MemorySandboxes
from tiltyard.testing.sandbox_bench import Box, SandboxBench


@pytest.fixture
def port() -> MemorySandboxes:
    return MemorySandboxes(problems={"docker": "no daemon answers"})


@pytest.fixture
def bench(port: MemorySandboxes) -> SandboxBench:
    return SandboxBench(port, "bubblewrap")


async def test_a_command_is_held_before_it_does_anything(port: MemorySandboxes, bench: SandboxBench) -> None:
    async with bench.sandbox() as box:
        port.started.shut()
        asked = asyncio.create_task(box.sh("echo x > f", op_id="held"))
        await port.started.reached.wait()
        assert (await box.files(), port.executions["held"]) == ({}, 1)
        port.started.open()
        assert (await asked).exit_code == 0
        assert await box.files() == {"f": b"x\n"}


async def test_a_command_is_held_when_it_has_done_everything(port: MemorySandboxes, bench: SandboxBench) -> None:
    async with bench.sandbox() as box:
        port.ending.shut()
        asked = asyncio.create_task(box.sh("echo x >> f", op_id="held"))
        await port.ending.reached.wait()
        assert await box.files() == {"f": b"x\n"}
        asked.cancel()
        again = asyncio.create_task(box.sh("echo x >> f", op_id="held"))
        port.ending.open()
        assert (await again).exit_code == 0
        assert (await box.files(), port.executions["held"]) == ({"f": b"x\n"}, 1)


async def test_a_lost_sandbox_is_listed_and_gives_nothing_back(port: MemorySandboxes, bench: SandboxBench) -> None:
    async with bench.sandbox() as box:
        asked = asyncio.create_task(box.sh("echo x > f; sleep 1000", op_id="open"))
        await box.appears("f")
        port.lose(box.order.name)
        with pytest.raises(SandboxLost):
            await asked
        for attempt in (box.sh("true"), box.provision(), box.snapshot()):
            with pytest.raises(SandboxLost):
                await attempt
        assert [(one.ref, one.state) for one in await port.sandboxes()] == [(box.ref, "lost")]
        later = box.again()
        await later.provision()
        assert (await later.files(), await later.settle(0)) == ({}, True)


async def test_out_of_reach_nothing_answers_and_nothing_is_forgotten(
    port: MemorySandboxes, bench: SandboxBench
) -> None:
    async with bench.sandbox() as box:
        port.ending.shut()
        asked = asyncio.create_task(box.sh("echo x >> f", op_id="open"))
        await port.ending.reached.wait()
        port.unreachable = True
        port.ending.open()
        with pytest.raises(SandboxUnreachable):
            await asked
        for attempt in (box.provision(), box.snapshot(), port.release(box.ref), port.sandboxes()):
            with pytest.raises(SandboxUnreachable):
                await attempt
        port.unreachable = False
        assert (await box.sh("echo x >> f", op_id="open")).exit_code == 0
        assert await box.files() == {"f": b"x\n"}


async def test_a_driver_that_does_not_work_says_why(port: MemorySandboxes) -> None:
    offer = await port.offer("docker")
    assert (offer.available, offer.problem) == (False, "no daemon answers")
    bench = SandboxBench(port, "docker")
    with pytest.raises(SandboxUnavailable, match="no daemon answers"):
        await Box(bench, bench.order()).provision()


async def test_a_provision_that_stops_waiting_leaves_the_queue() -> None:
    bench = SandboxBench(MemorySandboxes(slots=1), "bubblewrap")
    async with bench.sandbox() as box:
        impatient, patient = (Box(bench, bench.order()) for _ in range(2))
        first, second = (asyncio.create_task(one.provision()) for one in (impatient, patient))
        await asyncio.sleep(0)
        first.cancel()
        await bench.port.release(box.ref)
        assert await second == patient.ref
        await bench.port.release(patient.ref)
