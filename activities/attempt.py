"""What every activity attempt does: heartbeat, and translate its errors."""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager, suppress
from typing import TypeVar

from temporalio import activity
from temporalio.exceptions import ApplicationError

from activities.failures import MAX_MESSAGE, translated
from schemas.host import ELSEWHERE
from tiltyard.errors import EnvironmentFailed

ResultT = TypeVar("ResultT")

BEATS_PER_TIMEOUT = 4
"""Heartbeats within one heartbeat timeout, so that one late beat is not a lost worker."""


def require_host(wanted: str, here: str) -> None:
    """Pass on, before anything is done, what another host must do."""
    if wanted not in ("", here):
        message = f"the sandbox is on the host {wanted}, and this is {here}"
        raise ApplicationError(message, type=ELSEWHERE, non_retryable=True)


@asynccontextmanager
async def attempt() -> AsyncIterator[str]:
    """Beat while the body runs; gives this attempt's own name, which no other attempt has."""
    info = activity.info()
    beating = asyncio.create_task(_beat())
    try:
        async with translated():
            yield f"{info.workflow_run_id}/{info.activity_id}/{info.attempt}"
    finally:
        beating.cancel()
        with suppress(asyncio.CancelledError):
            await beating


async def _beat() -> None:
    timeout = activity.info().heartbeat_timeout
    if timeout is None:
        return
    while True:
        await asyncio.sleep(timeout.total_seconds() / BEATS_PER_TIMEOUT)
        activity.heartbeat()  # not at once: most attempts end before, and each beat is a write of the server's


async def kept(problems: list[str], step: Awaitable[ResultT]) -> ResultT | None:
    """What it gives; ``None``, with the problem noted, when a service failed it."""
    try:
        return await step
    except EnvironmentFailed as error:
        problems.append(f"{type(error).__name__}: {error}"[:MAX_MESSAGE])
        return None
