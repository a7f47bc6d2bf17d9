"""What the replacement world holds. Each entity is one row; times are virtual seconds since the start."""

from typing import Annotated, Literal

from pydantic import Field

from tiltyard.worlds.kit import Entity

Id = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
Text = Annotated[str, Field(min_length=1, max_length=4000)]

ApprovalStatus = Literal["pending", "approved", "denied", "revoked", "expired", "superseded"]
TicketStatus = Literal["open", "closed", "declined", "handed_off"]
DeclineReason = Literal["pending", "denied", "revoked", "expired", "other_ticket", "policy"]


class Customer(Entity):
    customer_id: Id
    name: Text
    email: Text
    address: Text


class Device(Entity):
    serial: Id
    model: Id
    customer_id: Id
    bought_on: str = Field(pattern=r"^\d{4}-\d{2}-\d{2}$")


class Ticket(Entity):
    """``cause`` is what the workshop found: the words that policy documents use for it."""

    ticket_id: Id
    customer_id: Id
    serial: Id
    problem: Text
    cause: Text
    approval_ids: tuple[Id, ...] = ()
    status: TicketStatus = "open"
    resolution: str | None = None
    replacement_id: str | None = None
    reason: DeclineReason | None = None
    summary: str | None = None
    operation_id_in_doubt: str | None = None


class Approval(Entity):
    """Permission to give ``model`` for ``ticket_id``; it covers nothing else."""

    approval_id: Id
    ticket_id: Id
    model: Id
    status: ApprovalStatus
    superseded_by: Id | None = None


class Replacement(Entity):
    replacement_id: Id
    ticket_id: Id
    serial: Id
    model: Id
    approval_id: Id
    status: Literal["accepted", "shipped"] = "accepted"
    accepted_at_s: int
    shipped_at_s: int | None = None


class Stock(Entity):
    """``next_delivery_s`` is when more will arrive, if that is known."""

    model: Id
    available: int = Field(ge=0, le=1_000_000)
    next_delivery_s: int | None = None


class Policy(Entity):
    """A document in force. The lower ``rank`` goes before the higher."""

    policy_id: Id
    title: Text
    rank: int = Field(ge=1, le=100)
    effective_on: str = Field(pattern=r"^\d{4}-\d{2}-\d{2}$")
    text: Text


class Note(Entity):
    note_id: Id
    ticket_id: Id
    text: str
    at_s: int


class Callback(Entity):
    callback_id: Id
    ticket_id: Id
    note: str
    due_s: int
    status: Literal["scheduled", "done"] = "scheduled"


class Approver(Entity):
    """The person who decides requested approvals: always alike, ``after_s`` seconds later."""

    decision: Literal["approved", "denied"]
    after_s: int = Field(ge=1, le=30 * 86_400)
