"""The host asks every supervisor for signs of life. Whoever uses a sandbox may be silent as long as they like."""

import asyncio
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from infra.sandboxes.client import HostClient
from infra.sandboxes.patience import Patience
from infra.sandboxes.serve import serving
from tests.contract.sandboxes.host_yard import SLEEP, TRUE, Yard, open_yard, order, states
from tiltyard.errors import SandboxLost, SandboxOutOfMemory

OFTEN = Patience(ping_s=0.1)
MANY = 4


@pytest.fixture
async def yard(tmp_path: Path) -> AsyncIterator[Yard]:
    async with open_yard(tmp_path / "sandboxes") as made:
        yield made


async def pinged(yard: Yard, times: int = MANY) -> None:
    """Wait until the supervisor has been asked so many times more."""
    before = yard.last.asked.count("ping")
    while yard.last.asked.count("ping") < before + times:
        await asyncio.sleep(0.001)


async def test_a_silent_worker_reclaims_nothing(yard: Yard) -> None:
    """No lease on a sandbox runs out: nobody asks for anything, nobody is even connected, and it lives
    (OpenSandbox 1200)."""
    host = await yard.start(patience=OFTEN)
    with tempfile.TemporaryDirectory() as runtime:
        path = Path(runtime) / "sandboxes.sock"
        async with serving(host, path):
            async with HostClient(path) as worker:
                ref = await worker.provision(order())
            await pinged(yard)
            async with HostClient(path) as another:
                assert (await another.call(ref, TRUE)).exec is not None
    assert await states(host) == {"one/1": "live"}


async def test_a_supervisor_that_falls_silent_is_dead_and_so_is_what_was_in_flight(yard: Yard) -> None:
    """A command may take a thousand seconds; nobody waits so long for the news that it will never end."""
    host = await yard.start(patience=OFTEN)
    ref = await host.provision(order())
    asked = asyncio.create_task(host.call(ref, SLEEP))
    await pinged(yard)
    yard.launcher.mute.add("ping")
    with pytest.raises(SandboxLost, match=r"no sign of life in 0\.2 s"):
        await asked
    assert await states(host) == {"one/1": "lost"}
    assert yard.last.killed


async def test_one_miss_is_none(yard: Yard) -> None:
    host = await yard.start(patience=OFTEN)
    await host.provision(order())
    for _ in range(3):
        yard.launcher.mute.add("ping")
        await pinged(yard, 1)
        yard.launcher.mute.clear()
        await pinged(yard)
    assert await states(host) == {"one/1": "live"}


@pytest.mark.parametrize("do", ["snapshot", "seal"])
async def test_a_supervisor_may_be_busy_for_as_long_as_what_it_does_may_take(yard: Yard, do: str) -> None:
    """A long copy, or a large file: it answers nothing else meanwhile, and has a limit of its own."""
    host = await yard.start(patience=OFTEN)
    ref = await host.provision(order())
    yard.launcher.mute |= {do, "ping"}
    asked = asyncio.create_task(host.snapshot(ref, {}) if do == "snapshot" else host.seal(ref))
    await pinged(yard)
    assert not asked.done()
    yard.launcher.mute.remove("ping")
    asked.cancel()
    await asyncio.wait([asked])
    assert "lost" not in (await states(host)).values()


async def test_silence_while_memory_is_wanting_is_a_loss_for_want_of_memory(yard: Yard) -> None:
    host = await yard.start(patience=OFTEN)
    ref = await host.provision(order())
    yard.last.memory = 1
    await pinged(yard)  # it has outlived this one
    yard.launcher.mute.add("ping")
    yard.last.memory = 3
    with pytest.raises(SandboxOutOfMemory, match=r"no sign of life .* ended 2 processes .* want of memory"):
        await host.call(ref, SLEEP)


async def test_a_sandbox_that_is_given_up_is_not_asked_any_more(yard: Yard) -> None:
    host = await yard.start(patience=OFTEN)
    ref = await host.provision(order())
    other = await host.provision(order("other"))
    first = yard.launcher.launched[0]
    await host.release(ref)
    asked = len(first.asked)
    await pinged(yard)
    assert len(first.asked) == asked
    await host.release(other)
