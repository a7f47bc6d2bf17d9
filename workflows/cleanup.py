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


async def uninterruptible(step: Coroutine[Any, Any, ResultT]) -> tuple[ResultT, asyncio.CancelledError | None]:
    """(the step's result, the cancellation that came meanwhile). Raises what the step raises."""
    task = asyncio.create_task(step)
    hit: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError as error:
            if task.cancelled():
                raise
            hit = error
        except Exception:
            break
    return task.result(), hit
