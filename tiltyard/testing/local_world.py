"""The ``World`` port over an engine in this process: no server, no socket."""

from collections.abc import Sequence

from schemas.branch import Past
from schemas.tool import ToolSpec
from schemas.world import DeliveryReply, DeliveryRequest, DrainReport, Facts, Lease, LeaseRequest
from tiltyard.worlds.engine import Engine


class LocalWorld:
    """Every call runs at once, on the caller's thread."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    async def describe(self, world: str) -> tuple[ToolSpec, ...]:
        return self.engine.describe(world)

    async def lease(self, request: LeaseRequest, past: Past | None = None) -> Lease:
        return self.engine.lease(request, past)

    async def so_far(self, namespace: str, generation: int) -> Past:
        return self.engine.so_far(namespace, generation)

    async def call(self, request: DeliveryRequest) -> DeliveryReply:
        return self.engine.call(request)

    async def admit(self, namespace: str, generation: int, incarnation: int) -> None:
        self.engine.admit(namespace, generation, incarnation)

    async def seal(self, namespace: str, generation: int) -> None:
        self.engine.seal(namespace, generation)

    async def drain(self, namespace: str, generation: int) -> DrainReport:
        return self.engine.drain(namespace, generation)

    async def facts(self, namespace: str, generation: int, collections: Sequence[str]) -> Facts:
        return self.engine.facts(namespace, generation, collections)

    async def recycle(self, namespace: str, generation: int) -> bool:
        return self.engine.recycle(namespace, generation)

    async def quarantine(self, namespace: str, generation: int, reason: str) -> None:
        self.engine.quarantine(namespace, generation, reason)

    async def leases(self) -> tuple[Lease, ...]:
        return self.engine.leases()
