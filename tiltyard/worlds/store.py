"""The port that the world engine keeps its state through: one transaction object over five tables.

A transaction is atomic, sees its own writes and is alone with the namespaces that it has read: other
transactions on them wait. A driver raises ``WorldUnreachable`` when it cannot begin or commit.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, Protocol

from schemas.base import Model
from schemas.world import DeliveryReply, DrainReport, LateWrite, Lease, LeaseRequest
from tiltyard.worlds.rows import Effect, Partition, RowKey


class NamespaceState(StrEnum):
    """Where a namespace is on its way: free → leased → sealed → drained → free, or quarantined for good."""

    FREE = "free"
    LEASED = "leased"
    SEALED = "sealed"
    DRAINED = "drained"
    QUARANTINED = "quarantined"


class Namespace(Model):
    """A namespace's own row.

    ``fence`` is its generation now; ``lease_generation`` the one that it was last leased under. They are equal
    from the lease to the seal, and only then. ``position`` is the last ledger position and ``deliveries`` the
    number of deliveries of that lease; ``sealed_position`` and ``in_flight`` are what the seal found.
    ``incarnation`` is the sandbox's whose calls are taken; 0 is none.
    """

    name: str
    state: NamespaceState = NamespaceState.FREE
    fence: int = 0
    lease_generation: int = 0
    owner: str | None = None
    request: LeaseRequest | None = None
    lease: Lease | None = None
    position: int = 0
    deliveries: int = 0
    sealed_position: int = 0
    in_flight: int = 0
    incarnation: int = 0
    drain: DrainReport | None = None
    reason: str = ""

    @property
    def partition(self) -> Partition:
        """Where the rows of the last lease are."""
        return Partition(self.name, self.lease_generation)


class OpenWait(Model):
    """A ``wait`` under way: its target is kept before the first of its transactions moves the clock."""

    started_at_s: int
    target_s: int
    first: int
    jobs_run: int = 0
    fault: str = ""


@dataclass(frozen=True)
class Delivery:
    """A delivery as recorded. ``ordinal`` counts from 1 in order of execution; ``arguments`` are canonical
    bytes; ``reply`` is ``None`` while it is open, and then ``wait`` says how far it has to go."""

    delivery_id: str
    ordinal: int
    request_digest: str
    tool: str
    arguments: bytes
    reply: DeliveryReply | None
    wait: OpenWait | None = None


class Overlay(NamedTuple):
    """A row of the copy-on-write table; ``None`` is a tombstone: deleted, though the template may have it."""

    body: bytes | None


class Contents(NamedTuple):
    """What a namespace holds of all its generations, as (generation, name) pairs; pristine is nothing at all."""

    rows: tuple[tuple[int, str], ...] = ()
    deliveries: tuple[tuple[int, str], ...] = ()
    ledger: tuple[tuple[int, str], ...] = ()


class WorldTx(Protocol):
    """One transaction."""

    def namespace(self, name: str) -> Namespace | None:
        """The namespace, held until the transaction ends."""
        ...

    def owned_by(self, owner: str) -> Namespace | None:
        """The namespace whose ``owner`` this is, held likewise."""
        ...

    def free_namespace(self) -> Namespace | None:
        """A free namespace, held likewise; the first by name that no other transaction holds."""
        ...

    def new_namespace(self) -> Namespace:
        """A namespace that has never existed: free, fence 0."""
        ...

    def namespaces(self) -> tuple[Namespace, ...]:
        """All, by name; not held."""
        ...

    def put_namespace(self, namespace: Namespace) -> None: ...

    def row(self, partition: Partition, row: RowKey) -> Overlay | None:
        """``None`` when the row was never written in this generation."""
        ...

    def rows(self, partition: Partition, world: str, collection: str) -> Mapping[str, Overlay]:
        """A collection's written rows by key, in no particular order."""
        ...

    def put_rows(self, partition: Partition, rows: Mapping[RowKey, Overlay]) -> None: ...

    def delivery(self, partition: Partition, delivery_id: str) -> Delivery | None: ...

    def deliveries(self, partition: Partition) -> tuple[Delivery, ...]:
        """All, by ordinal."""
        ...

    def put_deliveries(self, partition: Partition, deliveries: Sequence[Delivery]) -> None:
        """Record them, or replace the open records of the same ids."""
        ...

    def append(self, partition: Partition, effects: Sequence[Effect]) -> None: ...

    def ledger(self, partition: Partition) -> tuple[Effect, ...]:
        """All, by position."""
        ...

    def log_late(self, namespace: str, late: LateWrite, request_digest: str) -> None:
        """Insert if absent, by delivery id, generation and request: a repeat counts once."""
        ...

    def late(self, partition: Partition) -> tuple[LateWrite, ...]:
        """Late writes that named this generation, by delivery id."""
        ...

    def purge(self, partition: Partition) -> None:
        """Delete the rows, deliveries and ledger of a generation. The log of late writes stays."""
        ...

    def contents(self, namespace: str) -> Contents: ...


class WorldStore(Protocol):
    """Where worlds are kept."""

    def transaction(self) -> AbstractContextManager[WorldTx]:
        """Begin; commits at the end of the block, or takes everything back when it raises."""
        ...
