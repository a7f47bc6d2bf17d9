"""Cleanup that no cancellation interrupts.

A cancel can come before, during and again during cleanup, and no cancellation type of an activity protects it.
So each step is a task of its own, shielded in a loop until it is done; a cancel that comes meanwhile is kept
and raised afterwards. Nothing is awaited in a ``finally``: a run that is thrown away while it is suspended would
schedule its cleanup in whatever workflow happens to run.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

ResultT = TypeVar("ResultT")


async def uninterruptible(
    step: Coroutine[Any, Any, ResultT],
) -> tuple[asyncio.Task[ResultT], asyncio.CancelledError | None]:
    """(the finished step, the cancellation that came meanwhile).

    The step's result or error is the task's, so that neither hides the cancellation, nor is hidden by it.
    """
    task = asyncio.create_task(step)
    hit: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError as error:
            if task.cancelled():
                break
            hit = error
        except Exception:
            break
    return task, hit
