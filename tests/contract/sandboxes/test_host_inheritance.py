"""What an earlier host left is ended by the next one, and told as lost."""

import asyncio
import json
import logging
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from infra.sandboxes.inheritance import AT_ONCE
from infra.sandboxes.records import counts
from schemas.sandbox import SandboxRef
from tests.contract.sandboxes.host_yard import TRUE, Slow, Yard, open_yard, order, states, waits
from tiltyard.errors import SandboxLost


@pytest.fixture
async def yard(tmp_path: Path) -> AsyncIterator[Yard]:
    async with open_yard(tmp_path / "sandboxes") as made:
        yield made


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


async def test_others_are_served_while_what_an_earlier_host_left_is_ended(yard: Yard) -> None:
    await (await yard.start()).provision(order())
    slow = Slow(yard.launcher)
    starting = asyncio.create_task(yard.start())
    await slow.begun()
    slow.enough()
    assert await states(await starting) == {"one/1": "lost"}
    assert not slow.alone


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
