"""The slots of a host: how many sandboxes may be there at once."""

import asyncio
from typing import Literal

from schemas.host import Capacity


class Slots:
    """Given out in the order in which they were asked for. Whoever is cancelled while it waits has taken none."""

    def __init__(self, slots: int) -> None:
        self._slots = self._free = slots
        self._gate = asyncio.Semaphore(slots)

    @property
    def capacity(self) -> Capacity:
        return Capacity(slots=self._slots, free=self._free)

    def locked(self) -> bool:
        """Whether ``acquire`` would wait."""
        return self._gate.locked()

    async def acquire(self) -> Literal[True]:
        """Wait for a slot, and take it."""
        await self._gate.acquire()
        self._free -= 1
        return True

    def release(self) -> None:
        """Give one back."""
        self._free += 1
        self._gate.release()
