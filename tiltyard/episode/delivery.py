"""Sending a delivery until its outcome is known (I2)."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import TypeVar

from tenacity import AsyncRetrying, retry_if_exception_type, stop_after_delay, wait_random_exponential

from schemas.world import DeliveryReply, DeliveryRequest
from tiltyard.errors import WorldUnreachable
from tiltyard.ports import World

ResultT = TypeVar("ResultT")


def delivery_id(episode_id: str, generation: int, turn: int | str, call: int) -> str:
    """The harness's identity for one tool call; every retry of the harness uses it again."""
    return f"{episode_id}/{generation}/{turn}/{call}"


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
        began = asked = time.monotonic()

        async def attempt() -> DeliveryReply:
            nonlocal asked
            asked = time.monotonic()
            return await self._world.call(request)

        return await self.until_reply(attempt), asked - began

    async def until_reply(self, attempt: Callable[[], Awaitable[ResultT]]) -> ResultT:
        """Repeat an idempotent attempt while the world is out of reach."""
        async for retry in AsyncRetrying(
            retry=retry_if_exception_type(WorldUnreachable),
            wait=wait_random_exponential(multiplier=0.05, max=2),
            stop=stop_after_delay(self._deadline),
            sleep=asyncio.sleep,
            reraise=True,
        ):
            with retry:
                return await attempt()
        raise AssertionError("the retry loop returns or raises")
