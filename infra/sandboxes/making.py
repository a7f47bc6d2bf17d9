"""A sandbox that is being made: one task for all who ask for it, and its place in the queue for a slot."""

import asyncio
from collections.abc import Coroutine
from typing import Literal

from infra.sandboxes.slots import Slots
from schemas.sandbox import SandboxRef
from tiltyard.errors import SandboxLost


class Making:
    """One sandbox that is being made. What is begun goes on without those who asked; nobody's does not wait for a
    slot: it is ``unwanted``."""

    def __init__(self, ref: SandboxRef) -> None:
        self.ref = ref
        self.unwanted = False
        self._askers = 0
        self._waiting: asyncio.Task[Literal[True]] | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self, work: Coroutine[None, None, None]) -> None:
        """Begin. Its failure is told to those who ask, if there are any."""
        self._task = asyncio.create_task(work)
        self._task.add_done_callback(lambda done: done.cancelled() or done.exception())

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

    async def take(self, slots: Slots) -> None:
        """Take a slot, in its turn. Raises ``SandboxLost`` when nobody wants it any more."""
        if not self.unwanted:
            self._waiting = asyncio.create_task(slots.acquire())
            await asyncio.wait([self._waiting])
        if self._waiting is None or self._waiting.cancelled():
            raise SandboxLost(f"the sandbox {self.ref.name}/{self.ref.incarnation} was given up before it was made")

    def leave_queue(self) -> None:
        """It is not to wait for a slot (any more). Where it has one already, it is made all the same."""
        self.unwanted = True
        if self._waiting is not None:
            self._waiting.cancel()

    async def over(self) -> None:
        """Wait until it has been made, given up or has failed."""
        if self._task is not None:
            await asyncio.wait([self._task])
