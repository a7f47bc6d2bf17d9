"""Sending a delivery until its outcome is known (I2)."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import TypeVar

from tenacity import AsyncRetrying, retry_if_exception_type, stop_after_delay, wait_random_exponential

from schemas.world import DeliveryReply, DeliveryRequest
from tiltyard.errors import SandboxUnreachable, WorldUnreachable
from tiltyard.ports import World

ResultT = TypeVar("ResultT")


def delivery_id(episode_id: str, generation: int, turn: int | str, call: int) -> str:
    """The harness's identity for one tool call; every retry of the harness uses it again."""
    return f"{episode_id}/{generation}/{turn}/{call}"


AWAY = (WorldUnreachable, SandboxUnreachable)
"""No answer: the outcome is open, and the same request may be sent again."""


class Reconciler:
    """Sends the same request again until a reply, a refusal, or the deadline.

    A lost reply leaves open whether the effect happened; the same delivery asks for the recorded outcome, or is
    the first execution. So nothing is ever guessed, and nothing happens twice.
    """

    def __init__(self, world: World, deadline: timedelta) -> None:
        self._world = world
        self._deadline = deadline

    async def deliver(self, request: DeliveryRequest) -> tuple[DeliveryReply, float]:
        """(the outcome, seconds that were lost before it could be asked for).

        Raises ``LateWrite``, ``DeliveryConflict``, and ``WorldUnreachable`` past the deadline.
        """
        return await self.timed(lambda: self._world.call(request))

    async def timed(
        self, attempt: Callable[[], Awaitable[ResultT]], lasts: timedelta = timedelta()
    ) -> tuple[ResultT, float]:
        """(the answer, seconds that were lost before the attempt that brought it)."""
        began = asked = time.monotonic()

        async def stamped() -> ResultT:
            nonlocal asked
            asked = time.monotonic()
            return await attempt()

        return await self.until_reply(stamped, lasts), asked - began

    async def until_reply(
        self, attempt: Callable[[], Awaitable[ResultT]], lasts: timedelta = timedelta()
    ) -> ResultT:
        """Repeat an idempotent attempt while there is no answer. ``lasts`` is how long the work itself may take."""
        async for retry in AsyncRetrying(
            retry=retry_if_exception_type(AWAY),
            wait=wait_random_exponential(multiplier=0.05, max=2),
            stop=stop_after_delay(self._deadline + lasts),
            sleep=asyncio.sleep,
            reraise=True,
        ):
            with retry:
                return await attempt()
        raise AssertionError("the retry loop returns or raises")
