"""What a process does again and again beside its work."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

from tiltyard.errors import EnvironmentFailed

log = logging.getLogger(__name__)


@asynccontextmanager
async def repeating(step: Callable[[], Awaitable[object]], every_s: float, failing: str) -> AsyncIterator[None]:
    """Take the step every so often while the body runs; the first time after ``every_s``.

    Whatever it raises costs that time alone, and is logged as what is ``failing``: an error of ours must not end
    what others rely upon.
    """
    task = asyncio.create_task(_go_on(step, every_s, failing))
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def _go_on(step: Callable[[], Awaitable[object]], every_s: float, failing: str) -> None:
    while True:
        await asyncio.sleep(every_s)
        try:
            await step()
        except EnvironmentFailed as error:
            log.warning("%s: %s", failing, error)
        except Exception:
            log.exception(failing)
