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

GRANTED_S = 60.0
"""How long a permit is good for that was granted to an episode and is not used."""


class SandboxPermits(CustomSlotSupplier):
    """Offers room that the host has and for which no permit was granted. Implements ``activities.hosting.Permits``.

    The slot itself is the host's: held from provision to release, whatever becomes of workers and polls. Here is
    only counted who is on the way to one, so nothing is lost with this process. ``clock`` is in seconds.
    """

    def __init__(
        self, capacity: Callable[[], Awaitable[Capacity]], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._capacity, self._clock = capacity, clock
        self._offered = 0
        self._granted: dict[str, float] = {}
        self._asking = asyncio.Lock()

    @property
    def idle(self) -> bool:
        return self._offered > 0

    async def grant(self, name: str) -> bool:
        """Keep room for this sandbox, if there is any for which no other has a permit. Again: the same permit."""
        if name not in self._on_the_way() and (await self._capacity()).free <= len(self._on_the_way()):
            return False
        self._granted[name] = self._clock() + GRANTED_S
        return True

    def redeem(self, name: str) -> None:
        """It has its slot now, or needs none."""
        self._granted.pop(name, None)

    def _on_the_way(self) -> dict[str, float]:
        now = self._clock()
        self._granted = {name: until for name, until in self._granted.items() if until > now}
        return self._granted

    async def reserve_slot(self, ctx: SlotReserveContext) -> SlotPermit:
        async with self._asking:
            while True:
                if await self._has_room():
                    self._offered += 1
                    return SlotPermit()
                await asyncio.sleep(PAUSE_S)

    async def _has_room(self) -> bool:
        try:
            return (await self._capacity()).free > self._offered + len(self._on_the_way())
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
