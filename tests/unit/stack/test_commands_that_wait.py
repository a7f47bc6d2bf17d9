"""A command that waits on a stack: it keeps the stack in use, repairs it, and never waits for one that is gone."""

import asyncio
import os
import shutil
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial

import pytest
from filelock import FileLock

from infra.local.stack import bring_up, look, stay_up
from ops.cli.session import while_it_holds
from tests.unit.stack.stack_yard import Yard
from tiltyard.errors import BadInput, StackFailed


@asynccontextmanager
async def a_waiting_command(yard: Yard) -> AsyncIterator[None]:
    address = (await asyncio.to_thread(yard.up)).address
    async with while_it_holds(partial(stay_up, yard.config, address, yard.said.append), every_s=0.02):
        yield


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not holds():
            await asyncio.sleep(0.02)


async def for_ever() -> None:
    async with asyncio.timeout(60):
        await asyncio.Event().wait()


async def wait_through(yard: Yard, event: Callable[[Yard], object]) -> None:
    """Wait on the stack without an end of one's own, while something happens to it."""
    async with a_waiting_command(yard):
        await asyncio.to_thread(event, yard)
        await for_ever()


def break_the_worker(yard: Yard) -> None:
    (yard.steering / "worker.dies").touch()
    yard.kill("worker")


def other_settings(yard: Yard) -> None:
    """What a command of another shell does."""
    config = yard.config.model_copy(update={"settings": {"TILTYARD_TASK_QUEUE": "other"}})
    bring_up(config, yard.said.append)


async def test_its_stack_is_in_use_for_as_long_as_it_waits(yard: Yard) -> None:
    (yard.steering / "busy").write_text("1")  # so that the supervisor does not end it before the command looks
    async with a_waiting_command(yard):
        activity = yard.config.paths.activity
        for _ in range(2):
            os.utime(activity, (0, 0))
            await until(lambda: activity.stat().st_mtime > time.time() - 900)


@pytest.mark.parametrize(
    ("event", "why"),
    [
        (Yard.down, r"the stack has ended: .*tiltyard down.*`tiltyard episodes watch EPISODE`"),
        (other_settings, r"other settings \(TILTYARD_TASK_QUEUE=other\).*`tiltyard episodes watch EPISODE`"),
        (break_the_worker, r"worker died 3 times in a row .*`tiltyard episodes list`"),
        (lambda yard: shutil.rmtree(yard.config.home), "data folder .* has been removed"),
    ],
    ids=["down", "other settings", "given up", "removed"],
)
async def test_it_ends_when_its_stack_has_ended(yard: Yard, event: Callable[[Yard], object], why: str) -> None:
    with pytest.raises(StackFailed, match=why):
        await wait_through(yard, event)


async def test_it_ends_when_its_stack_has_moved(yard: Yard) -> None:
    address = (await asyncio.to_thread(yard.up)).address
    stay_up(yard.config, address, yard.said.append)
    with pytest.raises(StackFailed, match=f"moved to {address}"):
        stay_up(yard.config, "127.0.0.1:1", yard.said.append)


async def test_it_repairs_a_stack_that_was_killed(yard: Yard) -> None:
    async with a_waiting_command(yard):
        killed = yard.kill("supervisor")

        def repaired() -> bool:
            state = look(yard.config.paths)
            return state is not None and state.phase == "ready" and state.supervisor != killed

        await until(repaired)
    assert "the stack was killed: repairing it" in yard.said


async def test_it_leaves_a_stack_that_another_command_restarts_to_that_command(yard: Yard) -> None:
    address = (await asyncio.to_thread(yard.up)).address
    yard.down()
    with FileLock(yard.config.paths.lock):
        await asyncio.to_thread(stay_up, yard.config, address, yard.said.append)
    with pytest.raises(StackFailed):
        stay_up(yard.config, address, yard.said.append)


async def fails() -> None:
    raise BadInput("no", field="x")


async def cancelled_from_outside() -> None:
    asyncio.current_task().cancel()  # type: ignore[union-attr]
    await for_ever()


@pytest.mark.parametrize(("work", "error"), [(fails, BadInput), (cancelled_from_outside, asyncio.CancelledError)])
async def test_other_ends_of_the_block_stay_what_they_are(
    work: Callable[[], Awaitable[None]], error: type[BaseException]
) -> None:
    async def block() -> None:
        async with while_it_holds(lambda: None, every_s=0.001):
            await work()

    with pytest.raises(error):
        await asyncio.create_task(block())
