"""Rows and their changes: the small values that engine, stores and ledger share.

Everything that changes in a world is a row over its immutable template. The engine's own rows (clock, jobs,
receipts, counters) live in system collections and are written through the same path as entities.
"""

import json
from dataclasses import dataclass
from typing import Literal, NamedTuple

from schemas.base import JsonValue
from schemas.span import LONGEST_S
from schemas.world import SYSTEM, LedgerRow

CLOCK = SYSTEM + "clock"
JOBS = SYSTEM + "jobs"
"""Pending jobs."""

ENDED_JOBS = SYSTEM + "jobs-ended"
"""Jobs are moved here when they end, so that to look for what is due costs what is pending."""

RECEIPTS = SYSTEM + "receipts"
SEQUENCES = SYSTEM + "sequences"
FAULTS = SYSTEM + "faults"
"""Logical calls counted by tool: what a fault plan's ``nth`` refers to."""


LONGEST_DELAY_S = 10 * LONGEST_S
"""How far ahead a job may be scheduled: ten years."""


class RowKey(NamedTuple):
    """A row within one generation of a namespace. Compares by code points, as every list of rows is ordered."""

    world: str
    collection: str
    key: str

    @property
    def system(self) -> bool:
        return self.collection.startswith(SYSTEM)


class Partition(NamedTuple):
    """One generation of one namespace: what an episode's rows are kept under."""

    namespace: str
    generation: int


class Cause(NamedTuple):
    """What a change is laid to: one delivery or one deferred job (I1)."""

    kind: Literal["delivery", "job"]
    id: str
    tool: str
    operation_id: str | None = None


@dataclass(frozen=True)
class Effect:
    """One row change as the ledger keeps it; images are canonical bytes, ``None`` is absent."""

    position: int
    cause: Cause
    row: RowKey
    before: bytes | None
    after: bytes | None
    at_s: int

    def as_ledger_row(self) -> LedgerRow:
        return LedgerRow(
            position=self.position,
            cause_kind=self.cause.kind,
            cause=self.cause.id,
            tool=self.cause.tool,
            operation_id=self.cause.operation_id,
            world=self.row.world,
            collection=self.row.collection,
            key=self.row.key,
            before=decoded(self.before),
            after=decoded(self.after),
            at_s=self.at_s,
        )


def decoded(body: bytes | None) -> JsonValue:
    """A new JSON value of canonical bytes: whoever gets it may change it without changing anybody's row."""
    if body is None:
        return None
    value: JsonValue = json.loads(body.decode("utf-8", "surrogatepass"))
    return value
