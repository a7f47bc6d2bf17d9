"""Taking a past over: a namespace begins with all that has happened in another, under delivery ids of its own.

Nothing is run again. The rows are the last after-images of the ledger, the engine's own among them, so that clock,
jobs, receipts and counters go on where they were; and each delivery is there, so that one that is sent again is
answered from its record (I1).
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from schemas.base import JsonObject, JsonValue, canonical
from schemas.branch import Past
from schemas.world import DeliveryRecord, LeaseRequest, LedgerRow
from tiltyard.errors import BadInput
from tiltyard.worlds.arguments import wire_form
from tiltyard.worlds.rows import ENDED_JOBS, JOBS, RECEIPTS, Cause, Effect, RowKey, decoded
from tiltyard.worlds.store import Delivery, Namespace, Overlay, WorldTx
from tiltyard.worlds.template_reader import TemplateReader

NAMING = {RECEIPTS: "delivery_id", JOBS: "created_by", ENDED_JOBS: "created_by"}
"""Fields of the engine's own rows that hold a delivery id. What the world's tools write holds none."""


def require_whole(past: Past, request: LeaseRequest, base: TemplateReader) -> None:
    """Raises ``BadInput`` for a past that a lease over this template cannot begin with."""
    if past.template_digest != base.digest:
        raise BadInput(
            f"the past is one over another template than {request.template.name} of {request.world} as it is now",
            field="template",
            fix="take the task, and the version of the world, that the past is of",
        )
    problems = (_deliveries_flaw(past), _ledger_flaw(past, request.world), _order_flaw(past.ledger, base))
    if problem := next(filter(None, problems), ""):
        raise BadInput(problem, field="past", fix="take all that had happened when no call was under way")


def _deliveries_flaw(past: Past) -> str:
    ids = [one.delivery_id for one in past.deliveries]
    if foreign := next((one for one in ids if not one.startswith(_prefix(past))), None):
        return f"the delivery {foreign} is none of {_prefix(past)}"
    if len(set(ids)) < len(ids):
        return "two of its deliveries have the same id"
    unanswered = next((one.delivery_id for one in past.deliveries if one.reply is None), "")
    return f"the delivery {unanswered} was still under way" if unanswered else ""


def _ledger_flaw(past: Past, world: str) -> str:
    ids = {one.delivery_id for one in past.deliveries}
    if max((one.reply.last for one in past.deliveries if one.reply), default=0) > len(past.ledger):
        return "its ledger ends before its last delivery"
    for row in past.ledger:
        if row.world != world:
            return f"its ledger is of the world {row.world}"
        if row.cause_kind == "delivery" and row.cause not in ids:
            return f"the delivery {row.cause} of its ledger is missing"
    return ""


def _order_flaw(ledger: Iterable[LedgerRow], base: TemplateReader) -> str:
    """Each image continues the last one of its row, and the first one the template."""
    images: dict[RowKey, JsonValue] = {}
    for expected, row in enumerate(ledger, 1):
        key = _key(row)
        before = images[key] if key in images else decoded(base.image(row.collection, row.key))
        if (row.position, row.before) != (expected, before):
            return f"row {row.position} of its ledger does not go on from the rows before it"
        images[key] = row.after
    return ""


def take_over(tx: WorldTx, leased: Namespace, past: Past) -> None:
    """Write a past that is whole into a namespace that has just been leased and is empty."""
    assert leased.lease is not None, "a past is taken over by a lease"
    renaming = _Renaming(_prefix(past), f"{leased.lease.episode_id}/{leased.lease_generation}/")
    effects = list(renaming.effects(past.ledger))
    tx.put_rows(leased.partition, {effect.row: Overlay(effect.after) for effect in effects})
    tx.append(leased.partition, effects)
    deliveries = [renaming.delivery(ordinal, one) for ordinal, one in enumerate(past.deliveries, 1)]
    tx.put_deliveries(leased.partition, deliveries)
    counts = {"position": len(effects), "deliveries": len(deliveries)}
    tx.put_namespace(leased.model_copy(update=counts))


def _prefix(past: Past) -> str:
    return f"{past.episode_id}/{past.generation}/"


def _key(row: LedgerRow) -> RowKey:
    return RowKey(row.world, row.collection, row.key)


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

    def effects(self, ledger: Iterable[LedgerRow]) -> Iterator[Effect]:
        images: dict[RowKey, bytes | None] = {}
        for row in ledger:
            key = _key(row)
            before = images[key] if key in images else self._image(row.collection, row.before)
            images[key] = self._image(row.collection, row.after)
            cause = self._id(row.cause) if row.cause_kind == "delivery" else row.cause
            caused_by = Cause(row.cause_kind, cause, row.tool, row.operation_id)
            yield Effect(row.position, caused_by, key, before, images[key], row.at_s)

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
