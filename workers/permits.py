"""Permits: an order of a sandbox is taken only by a worker whose host has room for one more."""

import asyncio
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


class SandboxPermits(CustomSlotSupplier):
    """Offers a slot for each place that the host has free and that nobody has been offered.

    The permit itself is the host's: held from provision to release, whatever becomes of workers and polls. Here is
    only counted how many orders may be on their way, so nothing is lost with this process.
    """

    def __init__(self, capacity: Callable[[], Awaitable[Capacity]]) -> None:
        self._capacity = capacity
        self._offered = 0
        self._asking = asyncio.Lock()

    async def reserve_slot(self, ctx: SlotReserveContext) -> SlotPermit:
        async with self._asking:
            while True:
                if await self._has_room():
                    self._offered += 1
                    return SlotPermit()
                await asyncio.sleep(PAUSE_S)

    async def _has_room(self) -> bool:
        """An order under way may have its place already, and is counted twice then: rather one too few."""
        try:
            return (await self._capacity()).free > self._offered
        except EnvironmentFailed:
            return False

    def try_reserve_slot(self, ctx: SlotReserveContext) -> SlotPermit | None:
        """None at once: to look at the host takes a moment."""
        return None

    def mark_slot_used(self, ctx: SlotMarkUsedContext) -> None:
        """It stays offered until it is released."""

    def release_slot(self, ctx: SlotReleaseContext) -> None:
        self._offered -= 1


def by_permit(capacity: Callable[[], Awaitable[Capacity]]) -> WorkerTuner:
    """The tuner of a worker that takes orders of sandboxes, and nothing else."""
    return WorkerTuner.create_composite(
        workflow_supplier=FixedSizeSlotSupplier(1),
        activity_supplier=SandboxPermits(capacity),
        local_activity_supplier=FixedSizeSlotSupplier(1),
        nexus_supplier=FixedSizeSlotSupplier(1),
    )
