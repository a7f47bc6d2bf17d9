"""Permits: an episode is sent to a host only while that has room for one more sandbox."""

import asyncio
import time
from collections.abc import Awaitable, Callable

from temporalio.worker import (
    CustomSlotSupplier,
    FixedSizeSlotSupplier,
    SlotMarkUsedContext,
    SlotPermit,
    SlotReleaseContext,
    SlotReserveContext,
    WorkerTuner,
)

from schemas.host import Capacity
from tiltyard.errors import EnvironmentFailed

PAUSE_S = 0.1
"""Between two looks at a host that is full, or away."""

PROMISED_S = 60.0
"""How long room is kept for an episode that was told of it and does not come."""


class SandboxPermits(CustomSlotSupplier):
    """Offers room that the host has and that nobody was promised. Implements ``activities.hosting.Permits``.

    The permit itself is the host's: held from provision to release, whatever becomes of workers and polls. Here is
    only counted who is on the way to one, so nothing is lost with this process. ``clock`` is in seconds.
    """

    def __init__(
        self, capacity: Callable[[], Awaitable[Capacity]], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._capacity, self._clock = capacity, clock
        self._offered = 0
        self._promised: dict[str, float] = {}
        self._asking = asyncio.Lock()

    @property
    def idle(self) -> bool:
        return self._offered > 0

    async def promise(self, name: str) -> bool:
        """Keep room for this sandbox, if there is any that was not promised before. Again: the same room."""
        if name not in self._promises() and (await self._capacity()).free <= len(self._promises()):
            return False
        self._promised[name] = self._clock() + PROMISED_S
        return True

    def keep(self, name: str) -> None:
        """It has its permit now, or needs none."""
        self._promised.pop(name, None)

    def _promises(self) -> dict[str, float]:
        now = self._clock()
        self._promised = {name: until for name, until in self._promised.items() if until > now}
        return self._promised

    async def reserve_slot(self, ctx: SlotReserveContext) -> SlotPermit:
        async with self._asking:
            while True:
                if await self._has_room():
                    self._offered += 1
                    return SlotPermit()
                await asyncio.sleep(PAUSE_S)

    async def _has_room(self) -> bool:
        try:
            return (await self._capacity()).free > self._offered + len(self._promises())
        except EnvironmentFailed:
            return False

    def try_reserve_slot(self, ctx: SlotReserveContext) -> SlotPermit | None:
        """None at once: to look at the host takes a moment."""
        return None

    def mark_slot_used(self, ctx: SlotMarkUsedContext) -> None:
        """It stays offered until it is released."""

    def release_slot(self, ctx: SlotReleaseContext) -> None:
        self._offered -= 1


def by_permit(permits: SandboxPermits) -> WorkerTuner:
    """The tuner of a worker that finds room for sandboxes, and does nothing else."""
    return WorkerTuner.create_composite(
        workflow_supplier=FixedSizeSlotSupplier(1),
        activity_supplier=permits,
        local_activity_supplier=FixedSizeSlotSupplier(1),
        nexus_supplier=FixedSizeSlotSupplier(1),
    )
