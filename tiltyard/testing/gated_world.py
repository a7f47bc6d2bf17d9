"""A world whose calls can be held, or made to fail, at the moment that a test is about."""

import asyncio
from collections.abc import Callable, Sequence

from schemas.branch import Past
from schemas.tool import ToolSpec
from schemas.world import DeliveryReply, DeliveryRequest, DrainReport, Facts, Lease, LeaseRequest
from tiltyard.ports import World


class Gate:
    """Holds those who come to it while it is shut. ``reached`` is set as soon as somebody has come.

    ``failing`` makes an error for each who passes, before anything happens.
    """

    def __init__(self) -> None:
        self._open = asyncio.Event()
        self._open.set()
        self.reached = asyncio.Event()
        self.failing: Callable[[], Exception] | None = None

    def shut(self) -> None:
        self._open.clear()

    def open(self) -> None:
        self._open.set()

    async def passing(self) -> None:
        self.reached.set()
        await self._open.wait()
        if self.failing is not None:
            raise self.failing()


GATES = (
    "lease",
    "so_far",
    "call",
    "answering",
    "admit",
    "seal",
    "drain",
    "facts",
    "recycle",
    "quarantine",
    "leases",
)


class GatedWorld:
    """Implements ``tiltyard.ports.World``: each method passes the gate of its name, then asks ``world``.

    ``answering`` is the gate behind ``call``: what waits there has taken effect, and its reply is not seen yet.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self.gates = {name: Gate() for name in GATES}

    async def describe(self, world: str) -> tuple[ToolSpec, ...]:
        return await self._world.describe(world)

    async def lease(self, request: LeaseRequest, past: Past | None = None) -> Lease:
        await self.gates["lease"].passing()
        return await self._world.lease(request, past)

    async def so_far(self, namespace: str, generation: int) -> Past:
        await self.gates["so_far"].passing()
        return await self._world.so_far(namespace, generation)

    async def call(self, request: DeliveryRequest) -> DeliveryReply:
        await self.gates["call"].passing()
        reply = await self._world.call(request)
        await self.gates["answering"].passing()
        return reply

    async def admit(self, namespace: str, generation: int, incarnation: int) -> None:
        await self.gates["admit"].passing()
        await self._world.admit(namespace, generation, incarnation)

    async def seal(self, namespace: str, generation: int) -> None:
        await self.gates["seal"].passing()
        await self._world.seal(namespace, generation)

    async def drain(self, namespace: str, generation: int) -> DrainReport:
        await self.gates["drain"].passing()
        return await self._world.drain(namespace, generation)

    async def facts(self, namespace: str, generation: int, collections: Sequence[str]) -> Facts:
        await self.gates["facts"].passing()
        return await self._world.facts(namespace, generation, collections)

    async def recycle(self, namespace: str, generation: int) -> bool:
        await self.gates["recycle"].passing()
        return await self._world.recycle(namespace, generation)

    async def quarantine(self, namespace: str, generation: int, reason: str) -> None:
        await self.gates["quarantine"].passing()
        await self._world.quarantine(namespace, generation, reason)

    async def leases(self) -> tuple[Lease, ...]:
        await self.gates["leases"].passing()
        return await self._world.leases()
