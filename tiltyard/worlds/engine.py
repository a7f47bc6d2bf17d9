"""The world engine: all that ``tiltyard.ports.World`` promises, in one process and without waiting.

Leases, deliveries, seals and facts over a ``WorldStore``. It never reads wall time, and everything that it
knows is in its store, so that a new engine on the same store goes on where the last one died.
"""

from collections.abc import Callable, Mapping, Sequence

from schemas.branch import Past
from schemas.tool import ToolSpec
from schemas.world import DeliveryReply, DeliveryRequest, DrainReport, Facts, Lease, LeaseRequest
from tiltyard.worlds.custody import Custody
from tiltyard.worlds.deliveries import Deliveries
from tiltyard.worlds.desk import Desk
from tiltyard.worlds.facts import Collecting
from tiltyard.worlds.in_flight import InFlight
from tiltyard.worlds.kit import Template, WorldKind
from tiltyard.worlds.leasing import Leasing
from tiltyard.worlds.store import WorldStore
from tiltyard.worlds.template_reader import TemplateReader, Templates


class Engine:
    """Worlds by name over one store. Safe to call from many threads."""

    def __init__(
        self,
        worlds: Mapping[str, WorldKind],
        store: WorldStore,
        *,
        drain_limit_s: float = 30,
        reader: Callable[[Template], TemplateReader] = TemplateReader,
    ) -> None:
        self.desk = Desk(worlds, Templates(reader))
        self.in_flight = InFlight()
        self.deliveries = Deliveries(store, self.desk, self.in_flight)
        self.leasing = Leasing(store, self.desk)
        self.custody = Custody(store, self.desk, self.in_flight, drain_limit_s)
        self.collecting = Collecting(store, self.desk)

    def describe(self, world: str) -> tuple[ToolSpec, ...]:
        """The world's tools and the engine's own, by name. Raises ``BadInput`` for an unknown world."""
        return tuple(tool.spec for _, tool in sorted(self.desk.kind(world).tools.items()))

    def lease(self, request: LeaseRequest, past: Past | None = None) -> Lease:
        return self.leasing.lease(request, past)

    def so_far(self, namespace: str, generation: int) -> Past:
        return self.collecting.so_far(namespace, generation)

    def call(self, request: DeliveryRequest) -> DeliveryReply:
        return self.deliveries.call(request)

    def admit(self, namespace: str, generation: int, incarnation: int) -> None:
        self.custody.admit(namespace, generation, incarnation)

    def seal(self, namespace: str, generation: int) -> None:
        self.custody.seal(namespace, generation)

    def drain(self, namespace: str, generation: int) -> DrainReport:
        return self.custody.drain(namespace, generation)

    def facts(self, namespace: str, generation: int, collections: Sequence[str] = ()) -> Facts:
        return self.collecting.facts(namespace, generation, collections)

    def recycle(self, namespace: str, generation: int) -> bool:
        return self.custody.recycle(namespace, generation)

    def quarantine(self, namespace: str, generation: int, reason: str) -> None:
        self.custody.quarantine(namespace, generation, reason)

    def leases(self) -> tuple[Lease, ...]:
        return self.leasing.leases()
