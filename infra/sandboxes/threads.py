"""Work that takes its time, off the host's loop: it is the same loop for all sandboxes."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import suppress
from contextvars import copy_context
from typing import TypeVar

T = TypeVar("T")


async def in_thread(work: Callable[[], T], threads: Executor | None = None) -> T:
    """Do it in a thread, one of these or else of those that all share.

    Whoever is cancelled meanwhile waits for its end all the same: what was begun would go on, and whoever came next
    would not be alone with it.
    """
    loop = asyncio.get_running_loop()
    task = asyncio.ensure_future(loop.run_in_executor(threads, copy_context().run, work))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        while not task.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait([task])
        _ = task.cancelled() or task.exception()  # nobody is there to be told
        raise
