"""A host says that it is there, for as long as its sandboxes can be asked for."""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from schemas.host import HostBeat
from tiltyard.errors import EnvironmentFailed
from tiltyard.ports import Records, Sandboxes
from workers.rounds import repeating
from workers.settings import Settings

log = logging.getLogger(__name__)

BEATS_PER_OUTAGE = 24
"""Signs of life within the time after which a host that gives none is lost."""


@asynccontextmanager
async def beating(records: Records, sandboxes: Sandboxes, settings: Settings) -> AsyncIterator[None]:
    """Beat once before the body, and on while it runs."""
    await _beat(records, sandboxes, settings)
    every_s = settings.tuning.outage_s / BEATS_PER_OUTAGE
    async with repeating(lambda: _beat(records, sandboxes, settings), every_s, "no sign of life"):
        yield


async def _beat(records: Records, sandboxes: Sandboxes, settings: Settings) -> None:
    """A host whose sandboxes do not answer is as good as silent, and so is one that cannot be recorded.

    An error of ours costs this beat too, and no other: a host that works must not be taken for lost.
    """
    try:
        capacity = await sandboxes.capacity()
        await records.beat(HostBeat(host=settings.host, task_queue=settings.task_queue, capacity=capacity))
    except EnvironmentFailed as error:
        log.warning("the host %s gives no sign of life: %s", settings.host, error)
    except Exception:
        log.exception("the host %s gives no sign of life", settings.host)
