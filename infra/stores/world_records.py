"""Rows of the world tables to and from the engine's values."""

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel

from schemas.base import canonical
from schemas.world import DeliveryReply, DrainReport, LateWrite, Lease, LeaseRequest
from tiltyard.worlds.rows import Cause, Effect, RowKey
from tiltyard.worlds.store import Delivery, Namespace, OpenWait

Values = Mapping[str, Any]

ModelT = TypeVar("ModelT", bound=BaseModel)

DOCUMENTS: dict[str, type[BaseModel]] = {"request": LeaseRequest, "lease": Lease, "drain": DrainReport}
"""Columns of a namespace that hold canonical JSON."""


def namespace_values(namespace: Namespace) -> dict[str, Any]:
    documents = {name: _packed(getattr(namespace, name)) for name in DOCUMENTS}
    return {**namespace.model_dump(exclude=set(DOCUMENTS)), "state": str(namespace.state), **documents}


def namespace_from(row: Values) -> Namespace:
    documents = {name: _unpacked(model, row[name]) for name, model in DOCUMENTS.items()}
    return Namespace.model_validate({**row, **documents})


def delivery_values(delivery: Delivery) -> dict[str, Any]:
    return {**vars(delivery), "reply": _packed(delivery.reply), "wait": _packed(delivery.wait)}


def delivery_from(row: Values) -> Delivery:
    return Delivery(
        delivery_id=row["delivery_id"],
        ordinal=row["ordinal"],
        request_digest=row["request_digest"],
        tool=row["tool"],
        arguments=row["arguments"],
        reply=_unpacked(DeliveryReply, row["reply"]),
        wait=_unpacked(OpenWait, row["wait"]),
    )


def effect_values(effect: Effect) -> dict[str, Any]:
    return {
        "position": effect.position,
        "cause_kind": effect.cause.kind,
        "cause": effect.cause.id,
        "tool": effect.cause.tool,
        "operation_id": effect.cause.operation_id,
        **effect.row._asdict(),
        "before": effect.before,
        "after": effect.after,
        "at_s": effect.at_s,
    }


def effect_from(row: Values) -> Effect:
    return Effect(
        position=row["position"],
        cause=Cause(row["cause_kind"], row["cause"], row["tool"], row["operation_id"]),
        row=RowKey(row["world"], row["collection"], row["key"]),
        before=row["before"],
        after=row["after"],
        at_s=row["at_s"],
    )


def late_from(row: Values) -> LateWrite:
    return LateWrite.model_validate({name: row[name] for name in LateWrite.model_fields})


def _packed(document: BaseModel | None) -> bytes | None:
    return None if document is None else canonical(document)


def _unpacked(model: type[ModelT], body: bytes | None) -> ModelT | None:
    return None if body is None else model.model_validate_json(body)
