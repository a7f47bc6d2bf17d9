"""What belongs to no sandbox is ended by a sweep, and nothing else is."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from infra.sandboxes.host import SandboxHost
from schemas.sandbox import SandboxRef
from tests.contract.sandboxes.host_yard import Yard, open_yard, order, states
from tests.contract.sandboxes.memory_launcher import MemoryLauncher
from tiltyard.errors import EnvironmentFailed


@pytest.fixture
async def yard(tmp_path: Path) -> AsyncIterator[Yard]:
    async with open_yard(tmp_path / "sandboxes") as made:
        yield made


async def test_what_was_made_and_never_recorded_is_ended(yard: Yard) -> None:
    """As after a crash between the creation of a container and its record."""
    host = await yard.start()
    await host.provision(order())
    yard.launcher.places.add("nobody's")
    assert (await host.sweep(), await host.sweep()) == (1, 0)
    assert len(yard.launcher.places) == 1
    assert await states(host) == {"one/1": "live"}


async def test_what_is_being_made_at_that_moment_is_spared(yard: Yard) -> None:
    """It has a place already, and nobody has been told of it."""
    host = await yard.start()
    begun, enough = asyncio.Event(), asyncio.Event()

    async def wait() -> None:
        begun.set()
        await enough.wait()

    yard.launcher.while_launching = wait
    making = asyncio.create_task(host.provision(order()))
    await begun.wait()
    assert await host.sweep() == 0
    enough.set()
    await making
    assert await states(host) == {"one/1": "live"}


async def test_a_cancelled_maker_leaves_nothing_that_a_sweep_would_have_to_find(yard: Yard) -> None:
    """The launch goes on without whoever asked for it, and the release that follows it ends it."""
    host = await yard.start()
    begun, enough = asyncio.Event(), asyncio.Event()

    async def wait() -> None:
        begun.set()
        await enough.wait()

    yard.launcher.while_launching = wait
    making = asyncio.create_task(host.provision(order()))
    await begun.wait()
    making.cancel()
    releasing = asyncio.create_task(host.release(SandboxRef(driver="bubblewrap", name="one", incarnation=1)))
    await asyncio.wait([making])
    assert not releasing.done(), "the release found nothing, and was overtaken by the creation"
    enough.set()
    await releasing
    assert (yard.launcher.places, await host.sweep(), await states(host)) == (set(), 0, {})


async def test_what_nobody_can_name_and_could_not_be_ended_is_tried_again(yard: Yard) -> None:
    """A record that cannot be read, and a process that does not go in time: the folder is not used meanwhile."""
    await (await yard.start()).provision(order())
    (folder,) = yard.folder.iterdir()
    (folder / "record.json").write_text("{")
    yard.launcher.stuck = True
    host = await yard.start()
    with pytest.raises(EnvironmentFailed, match="something of an earlier sandbox is left"):
        await host.provision(order())
    assert await host.sweep() == 0
    yard.launcher.stuck = False
    assert await host.sweep() == 1
    assert (yard.launcher.places, list(yard.folder.iterdir())) == (set(), [])
    await host.provision(order())
    assert await states(host) == {"one/1": "live"}


async def test_a_driver_that_cannot_tell_keeps_no_other_from_being_swept(tmp_path: Path) -> None:
    unsure, other = MemoryLauncher(), MemoryLauncher()
    unsure.unsure = EnvironmentFailed("the engine does not answer")
    other.places.add("nobody's")
    async with SandboxHost({"docker": unsure, "bubblewrap": other}, tmp_path, slots=1) as host:
        with pytest.raises(EnvironmentFailed, match="the engine does not answer"):
            await host.sweep()
    assert other.places == set()


async def test_two_sweeps_at_once_come_one_after_the_other(yard: Yard) -> None:
    host = await yard.start()
    yard.launcher.places.add("nobody's")
    assert sorted(await asyncio.gather(host.sweep(), host.sweep())) == [0, 1]
    assert yard.launcher.at_once == 1
