"""Work that takes its time, off the host's loop: it is the same loop for all sandboxes."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")


async def in_thread(work: Callable[[], T]) -> T:
    """Do it in a thread. Whoever is cancelled meanwhile waits for its end all the same: what was begun would go on,
    and whoever came next would not be alone with it."""
    task = asyncio.create_task(asyncio.to_thread(work))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        while not task.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait([task])
        _ = task.cancelled() or task.exception()  # nobody is there to be told
        raise
