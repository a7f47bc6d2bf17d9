"""Sandboxes that are being made: one task each for all who ask, and a queue for the slots."""

import asyncio
from collections.abc import Coroutine

from schemas.sandbox import SandboxRef
from tiltyard.errors import SandboxLost


class Slots:
    """Places for sandboxes, given in the order of asking."""

    def __init__(self, number: int) -> None:
        self.number = number
        self._free = asyncio.Semaphore(number)

    async def take(self, making: "Making") -> None:
        """Wait for a place. Raises ``SandboxLost`` when it is given up meanwhile."""
        making.waits = True
        try:
            await self._free.acquire()
        except asyncio.CancelledError:
            raise SandboxLost(
                f"{making.ref.name}/{making.ref.incarnation} was given up before it was made"
            ) from None
        finally:
            making.waits = False

    def give_back(self) -> None:
        """A place is free."""
        self._free.release()


class Making:
    """One sandbox that is being made. What is begun goes on without those who asked; nobody's does not wait for a
    slot."""

    def __init__(self, ref: SandboxRef) -> None:
        self.ref = ref
        self.waits = False
        self._askers = 0
        self._task: asyncio.Task[None] | None = None

    def start(self, work: Coroutine[None, None, None]) -> None:
        self._task = asyncio.create_task(work)
        self._task.add_done_callback(lambda done: done.cancelled() or done.exception())  # perhaps nobody asks

    async def made(self) -> None:
        """Wait until it is made, or raise why it is not."""
        assert self._task is not None
        self._askers += 1
        try:
            await asyncio.shield(self._task)
        finally:
            self._askers -= 1
            if not self._askers:
                self.leave_queue()

    def leave_queue(self) -> None:
        """Give it up if it still waits for a slot: what is begun is brought to an end."""
        if self.waits and self._task is not None:
            self._task.cancel()

    async def over(self) -> None:
        """Wait until it has been made, given up or has failed."""
        if self._task is not None:
            await asyncio.wait([self._task])
