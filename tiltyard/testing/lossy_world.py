"""A world behind a bad network: messages are lost, delayed, sent twice, and sent again long after."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, fields
from random import Random
from typing import TypeVar

from schemas.branch import Past
from schemas.tool import ToolSpec
from schemas.world import DeliveryReply, DeliveryRequest, DrainReport, Facts, Lease, LeaseRequest
from tiltyard.errors import WorldUnreachable
from tiltyard.ports import World

__all__ = ["LossyWorld", "Rates"]

T = TypeVar("T")
Send = Callable[[], Awaitable[T]]
Sleep = Callable[[float], Awaitable[None]]


@dataclass(frozen=True)
class Rates:
    """How often each mishap befalls a message: probabilities from 0 to 1, independent of each other.

    ``lose_request``: it never arrives. ``lose_reply``: it is carried out, and nobody hears of it. ``delay``: it
    arrives up to ``delay_s`` later. ``duplicate``: it arrives twice, at the same time. ``late_duplicate``: it
    arrives again ``late_s`` seconds after its reply, in the background, when everything may be over.
    """

    lose_request: float = 0.05
    lose_reply: float = 0.05
    delay: float = 0.05
    duplicate: float = 0.05
    late_duplicate: float = 0.05
    delay_s: float = 0.2
    late_s: tuple[float, float] = (0.5, 5.0)

    def __post_init__(self) -> None:
        for name in (field.name for field in fields(self) if field.type is float and field.name != "delay_s"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name}: a probability is between 0 and 1")


class LossyWorld:
    """Implements ``tiltyard.ports.World`` over another one. A loss is ``WorldUnreachable``.

    ``random`` decides. ``late_methods`` are those of which late duplicates are sent: a late lease is left out by
    default, because it is a lease of an episode that is over, for the janitor to find. ``injected`` counts what
    was done, by name of the rate; ``late`` counts how late duplicates ended, by ``accepted`` or the error's name;
    ``differing`` counts duplicates of a call that were answered differently, which must never happen.
    Call ``aclose`` at the end.
    """

    def __init__(
        self,
        world: World,
        random: Random,
        rates: Rates | None = None,
        late_methods: frozenset[str] = frozenset({"call", "admit", "seal", "drain", "recycle", "quarantine"}),
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._world, self._random, self._rates = world, random, rates or Rates()
        self._late_methods, self._sleep = late_methods, sleep
        self._later: set[asyncio.Task[None]] = set()
        self.injected: Counter[str] = Counter()
        self.late: Counter[str] = Counter()
        self.differing = 0

    async def describe(self, world: str) -> tuple[ToolSpec, ...]:
        return await self._through("describe", lambda: self._world.describe(world))

    async def lease(self, request: LeaseRequest, past: Past | None = None) -> Lease:
        return await self._through("lease", lambda: self._world.lease(request, past))

    async def so_far(self, namespace: str, generation: int) -> Past:
        return await self._through("so_far", lambda: self._world.so_far(namespace, generation))

    async def call(self, request: DeliveryRequest) -> DeliveryReply:
        return await self._through("call", lambda: self._world.call(request))

    async def admit(self, namespace: str, generation: int, incarnation: int) -> None:
        await self._through("admit", lambda: self._world.admit(namespace, generation, incarnation))

    async def seal(self, namespace: str, generation: int) -> None:
        await self._through("seal", lambda: self._world.seal(namespace, generation))

    async def drain(self, namespace: str, generation: int) -> DrainReport:
        return await self._through("drain", lambda: self._world.drain(namespace, generation))

    async def facts(self, namespace: str, generation: int, collections: Sequence[str]) -> Facts:
        return await self._through("facts", lambda: self._world.facts(namespace, generation, collections))

    async def recycle(self, namespace: str, generation: int) -> bool:
        return await self._through("recycle", lambda: self._world.recycle(namespace, generation))

    async def quarantine(self, namespace: str, generation: int, reason: str) -> None:
        await self._through("quarantine", lambda: self._world.quarantine(namespace, generation, reason))

    async def leases(self) -> tuple[Lease, ...]:
        return await self._through("leases", self._world.leases)

    async def settled(self) -> None:
        """Wait until every late duplicate has arrived."""
        while self._later:
            await asyncio.gather(*self._later)

    async def aclose(self) -> None:
        """Drop the late duplicates that are still on their way."""
        for task in self._later:
            task.cancel()
        await asyncio.gather(*self._later, return_exceptions=True)

    async def _through(self, method: str, send: Send[T]) -> T:
        mishaps = self._mishaps(method)
        self.injected.update(mishaps)
        if "delay" in mishaps:
            await self._sleep(self._random.uniform(0, self._rates.delay_s))
        if "late_duplicate" in mishaps:
            self._send_later(send)
        if "lose_request" in mishaps:
            raise WorldUnreachable(f"injected: the request of {method} was lost")
        reply = await (self._twice(method, send) if "duplicate" in mishaps else send())
        if "lose_reply" in mishaps:
            raise WorldUnreachable(f"injected: the reply of {method} was lost")
        return reply

    def _mishaps(self, method: str) -> set[str]:
        """What befalls this message. Every message draws as often, so that one rate does not shift the others."""
        names = ("lose_request", "lose_reply", "delay", "duplicate", "late_duplicate")
        drawn = {name for name in names if self._random.random() < getattr(self._rates, name)}
        return drawn if method in self._late_methods else drawn - {"late_duplicate"}

    async def _twice(self, method: str, send: Send[T]) -> T:
        first, second = await asyncio.gather(send(), send(), return_exceptions=True)
        if method == "call" and not _alike(first, second):
            self.differing += 1
        if isinstance(first, BaseException):
            raise first
        return first

    def _send_later(self, send: Send[T]) -> None:
        task = asyncio.get_running_loop().create_task(
            self._arrive_late(send, self._random.uniform(*self._rates.late_s))
        )
        self._later.add(task)
        task.add_done_callback(self._later.discard)

    async def _arrive_late(self, send: Send[T], after_s: float) -> None:
        await self._sleep(after_s)
        try:
            await send()
        except Exception as error:  # nobody waits for this reply: whatever it is, it is only counted
            self.late[type(error).__name__] += 1
        else:
            self.late["accepted"] += 1


def _alike(first: object, second: object) -> bool:
    """Equal replies, or the same refusal. A real loss of one of the two says nothing."""
    if isinstance(first, WorldUnreachable) or isinstance(second, WorldUnreachable):
        return True
    if isinstance(first, BaseException):
        return type(first) is type(second)
    return first == second
