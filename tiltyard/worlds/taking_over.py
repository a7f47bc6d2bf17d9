"""Taking a past over: a namespace begins with all that has happened in another, under delivery ids of its own.

Nothing is run again. The rows are the last after-images of the ledger, the engine's own among them, so that clock,
jobs, receipts and counters go on where they were; and each delivery is there, so that one that is sent again is
answered from its record (I1).
"""

from collections.abc import Mapping
from dataclasses import dataclass

from schemas.base import JsonObject, JsonValue, canonical
from schemas.branch import Past
from schemas.world import DeliveryRecord, LeaseRequest, LedgerRow
from tiltyard.errors import BadInput
from tiltyard.worlds.arguments import wire_form
from tiltyard.worlds.rows import ENDED_JOBS, JOBS, RECEIPTS, Cause, Effect, RowKey
from tiltyard.worlds.store import Delivery, Namespace, Overlay, WorldTx

NAMING = {RECEIPTS: "delivery_id", JOBS: "created_by", ENDED_JOBS: "created_by"}
"""Fields of the engine's own rows that hold a delivery id. What the world's tools write holds none."""


def require_whole(past: Past, request: LeaseRequest, template_digest: str) -> None:
    """Raises ``BadInput`` for a past that the lease cannot begin with."""
    if past.template_digest != template_digest:
        raise BadInput(
            f"the past is one over another template than {request.template.name} of {request.world} as it is now",
            field="template",
            fix="take the task, and the version of the world, that the past is of",
        )
    problem = _problem_of_deliveries(past) or _problem_of_ledger(past, request.world)
    if problem:
        raise BadInput(problem, field="past", fix="take all that had happened when no call was under way")


def _problem_of_deliveries(past: Past) -> str:
    ids = [one.delivery_id for one in past.deliveries]
    if foreign := next((one for one in ids if not one.startswith(_prefix(past))), None):
        return f"the delivery {foreign} is none of {_prefix(past)}"
    if len(set(ids)) < len(ids):
        return "two of its deliveries have the same id"
    if unanswered := next((one for one in past.deliveries if one.reply is None), None):
        return f"the delivery {unanswered.delivery_id} was still under way"
    return ""


def _problem_of_ledger(past: Past, world: str) -> str:
    ids = {one.delivery_id for one in past.deliveries}
    if [row.position for row in past.ledger] != list(range(1, len(past.ledger) + 1)):
        return "its ledger has gaps"
    if max((one.reply.last for one in past.deliveries if one.reply), default=0) > len(past.ledger):
        return "its ledger ends before its last delivery"
    if row := next((row for row in past.ledger if row.cause_kind == "delivery" and row.cause not in ids), None):
        return f"the delivery {row.cause} of its ledger is missing"
    if row := next((row for row in past.ledger if row.world != world), None):
        return f"its ledger is of the world {row.world}"
    return ""


def take_over(tx: WorldTx, namespace: Namespace, past: Past) -> None:
    """Write the past into a namespace that has just been leased and is empty."""
    assert namespace.lease is not None, "a past is taken over by a lease"
    renaming = _Renaming(_prefix(past), f"{namespace.lease.episode_id}/{namespace.lease_generation}/")
    effects = [renaming.effect(row) for row in past.ledger]
    tx.put_rows(namespace.partition, {effect.row: Overlay(effect.after) for effect in effects})
    tx.append(namespace.partition, effects)
    deliveries = [renaming.delivery(number, one) for number, one in enumerate(past.deliveries, 1)]
    tx.put_deliveries(namespace.partition, deliveries)


def _prefix(past: Past) -> str:
    return f"{past.episode_id}/{past.generation}/"


@dataclass(frozen=True)
class _Renaming:
    """Puts one beginning of delivery ids in the place of another, wherever they occur."""

    before: str
    after: str

    def delivery(self, ordinal: int, record: DeliveryRecord) -> Delivery:
        assert record.reply is not None, "a past has no call under way"
        own_id = self._id(record.delivery_id)
        return Delivery(
            delivery_id=own_id,
            ordinal=ordinal,
            request_digest=record.request_digest,
            tool=record.tool,
            arguments=wire_form(record.arguments),
            reply=record.reply.model_copy(update={"delivery_id": own_id}),
        )

    def effect(self, row: LedgerRow) -> Effect:
        cause = self._id(row.cause) if row.cause_kind == "delivery" else row.cause
        return Effect(
            position=row.position,
            cause=Cause(row.cause_kind, cause, row.tool, row.operation_id),
            row=RowKey(row.world, row.collection, row.key),
            before=self._image(row.collection, row.before),
            after=self._image(row.collection, row.after),
            at_s=row.at_s,
        )

    def _image(self, collection: str, body: JsonValue) -> bytes | None:
        if body is None:
            return None
        naming = NAMING.get(collection)
        return canonical(self._renamed(body, naming) if naming and isinstance(body, dict) else body)

    def _renamed(self, body: Mapping[str, JsonValue], naming: str) -> JsonObject:
        named = body.get(naming)
        return {**body, naming: self._id(named) if isinstance(named, str) else named}

    def _id(self, name: str) -> str:
        return self.after + name.removeprefix(self.before) if name.startswith(self.before) else name
