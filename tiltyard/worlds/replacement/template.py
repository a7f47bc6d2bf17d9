"""Generates a starting state from parameters: one case, its documents, what will happen, and bystanders."""

from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError, model_validator

from schemas.base import JsonObject
from schemas.span import LONGEST_S
from tiltyard.errors import BadInput
from tiltyard.worlds.kit import Entity, Template
from tiltyard.worlds.replacement.bystanders import bystanders
from tiltyard.worlds.replacement.documents import STANDARD
from tiltyard.worlds.replacement.entities import (
    Approval,
    ApprovalStatus,
    Approver,
    Customer,
    Device,
    Id,
    Policy,
    Stock,
    Ticket,
)

AfterS = Annotated[int, Field(ge=1, le=LONGEST_S)]


class StockParams(Entity):
    """``delivery_after_s`` and ``delivery`` announce a delivery and its size."""

    available: int = Field(default=5, ge=0, le=1_000_000)
    delivery_after_s: AfterS | None = None
    delivery: int = Field(default=3, ge=1, le=1_000_000)


class Amendment(Entity):
    """An existing approval changes in the given fields ``after_s`` seconds into the episode."""

    kind: Literal["amend"]
    after_s: AfterS
    approval_id: Id
    status: ApprovalStatus | None = None
    model: Id | None = None
    superseded_by: Id | None = None


class Grant(Entity):
    """The case's ticket is given a new approval."""

    kind: Literal["grant"]
    after_s: AfterS
    approval_id: Id
    model: Id


class Params(Entity):
    """The parameters of the template ``default``. Ids that name something must name something that is there."""

    customer: Customer
    device: Device
    ticket: Ticket
    approvals: tuple[Approval, ...] = Field(default=(), max_length=50)
    approver: Approver = Approver(decision="approved", after_s=4 * 3600)
    stock: dict[Id, StockParams] = Field(min_length=1, max_length=200)
    policies: tuple[Policy, ...] = Field(default=(), max_length=50)
    events: tuple[Annotated[Amendment | Grant, Field(discriminator="kind")], ...] = Field(default=(), max_length=50)
    bystanders: int = Field(default=6, ge=0, le=20_000)

    @model_validator(mode="after")
    def _consistent(self) -> "Params":
        approvals = {a.approval_id for a in self.approvals}
        granted = {e.approval_id for e in self.events if isinstance(e, Grant)}
        used_models = {a.model for a in self.approvals} | {e.model for e in self.events if e.model}
        _known("device.customer_id", {self.device.customer_id}, {self.customer.customer_id})
        _known("ticket.customer_id", {self.ticket.customer_id}, {self.customer.customer_id})
        _known("ticket.serial", {self.ticket.serial}, {self.device.serial})
        _known("ticket.approval_ids", set(self.ticket.approval_ids), approvals)
        _known("stock", used_models, set(self.stock))
        _known("events.approval_id", {e.approval_id for e in self.events if isinstance(e, Amendment)}, approvals)
        if both := approvals & granted:
            raise ValueError(f"events.approval_id: {', '.join(sorted(both))} exists already and cannot be granted")
        return self


def _known(field: str, used: set[str], there: set[str]) -> None:
    if missing := used - there:
        raise ValueError(f"{field}: {', '.join(sorted(missing))} is not among {', '.join(sorted(there)) or 'none'}")


def template(name: str, params: JsonObject) -> Template:
    """The starting state for ``params``. Raises ``BadInput`` that names the parameter."""
    if name != "default":
        raise BadInput(f"no template {name!r}", field="template.name", fix="the replacement world has: default")
    try:
        case = Params.model_validate(params)
    except ValidationError as error:
        raise _bad_params(error) from None
    return Template.of(_rows(case), _jobs(case))


def _bad_params(error: ValidationError) -> BadInput:
    first = error.errors()[0]
    path = ".".join(("template", "params", *(str(part) for part in first["loc"])))
    return BadInput(first["msg"].removeprefix("Value error, "), field=path, fix="see docs/worlds/replacement.md")


def _rows(case: Params) -> dict[str, dict[str, Any]]:
    rows: dict[str, dict[str, Any]] = bystanders(case.bystanders)
    stock = {
        model: Stock(model=model, available=of.available, next_delivery_s=of.delivery_after_s)
        for model, of in case.stock.items()
    }
    own: dict[str, dict[str, Any]] = {
        "customers": {case.customer.customer_id: case.customer},
        "devices": {case.device.serial: case.device},
        "tickets": {case.ticket.ticket_id: case.ticket},
        "approvals": {approval.approval_id: approval for approval in case.approvals},
        "approvers": {"desk": case.approver},
        "stock": stock,
        "policies": {policy.policy_id: policy for policy in (*STANDARD, *case.policies)},
    }
    return {name: rows.get(name, {}) | of for name, of in own.items()}


def _jobs(case: Params) -> tuple[tuple[str, JsonObject, int], ...]:
    deliveries: list[tuple[str, JsonObject, int]] = [
        ("receive_stock", {"model": model, "quantity": of.delivery}, of.delivery_after_s)
        for model, of in sorted(case.stock.items())
        if of.delivery_after_s is not None
    ]
    return (*deliveries, *(_event(event, case.ticket.ticket_id) for event in case.events))


def _event(event: Amendment | Grant, ticket_id: str) -> tuple[str, JsonObject, int]:
    arguments = event.model_dump(mode="json", exclude_none=True, exclude={"kind", "after_s"})
    if isinstance(event, Grant):
        return "grant_approval", arguments | {"ticket_id": ticket_id}, event.after_s
    return "amend_approval", arguments, event.after_s
