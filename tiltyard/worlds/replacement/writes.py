"""Tools that change something.

They answer briefly and never repeat what they were told, so that an answer proves something only where the
service itself has found it out.
"""

from typing import Annotated, Literal

from pydantic import Field, JsonValue

from schemas.span import LONGEST_S
from tiltyard.worlds.kit import Refused, State, tool
from tiltyard.worlds.replacement.entities import (
    Approval,
    Approver,
    Callback,
    DeclineReason,
    Device,
    Note,
    Replacement,
    Stock,
    Ticket,
)
from tiltyard.worlds.replacement.reads import ApprovalId, Model, TicketId

SHIPS_AFTER_S = 2 * 86_400
"""An accepted replacement leaves the warehouse two days later."""

NoteText = Annotated[str, Field(min_length=1, max_length=4000)]
Result = dict[str, JsonValue]


@tool(writes=True, cost_s=30)
def request_approval(state: State, ticket_id: TicketId, model: Model) -> Result:
    """Ask the approver for a replacement of this model for an open ticket. The decision takes hours."""
    ticket = _open_ticket(state, ticket_id)
    state.get(Stock, "stock", model)
    approver = state.get(Approver, "approvers", "desk")
    approval_id = f"A-{1000 + state.next_id('approvals')}"
    approval = Approval(approval_id=approval_id, ticket_id=ticket_id, model=model, status="pending")
    state.save("approvals", approval_id, approval)
    _update(state, ticket, approval_ids=(*ticket.approval_ids, approval_id))
    decision: Result = {"approval_id": approval_id, "status": approver.decision}
    state.schedule("amend_approval", decision, approver.after_s)
    return {"approval_id": approval_id, "status": "pending"}


@tool(writes=True, cost_s=30)
def create_replacement(
    state: State,
    ticket_id: TicketId,
    serial: Annotated[str, Field(description="Serial number of the failed device.")],
    model: Model,
    approval_id: ApprovalId,
) -> Result:
    """Order a replacement device. It ships two days later and cannot be taken back.

    The service checks that ticket, device, model and approval exist and that the model is in stock. It does not
    check what the approval says: that is yours to do.
    """
    state.get(Ticket, "tickets", ticket_id)
    state.get(Device, "devices", serial)
    state.get(Approval, "approvals", approval_id)
    stock = state.get(Stock, "stock", model)
    if stock.available == 0:
        raise Refused(f"{model} is out of stock; get_stock says when more arrive", code="out_of_stock")
    replacement_id = f"R-{1000 + state.next_id('replacements')}"
    replacement = Replacement(
        replacement_id=replacement_id,
        ticket_id=ticket_id,
        serial=serial,
        model=model,
        approval_id=approval_id,
        accepted_at_s=state.now_s,
    )
    state.save("replacements", replacement_id, replacement)
    state.save("stock", model, stock.model_copy(update={"available": stock.available - 1}))
    state.schedule("ship_replacement", {"replacement_id": replacement_id}, SHIPS_AFTER_S)
    return {"replacement_id": replacement_id, "status": "accepted"}


@tool(writes=True, cost_s=10)
def close_ticket(
    state: State,
    ticket_id: TicketId,
    resolution: Literal["replaced", "no_fault_found"],
    replacement_id: Annotated[str | None, Field(description="Needed when it was replaced.", max_length=64)] = None,
) -> Result:
    """Close an open ticket. The ticket system does not look the replacement up."""
    ticket = _open_ticket(state, ticket_id)
    if (resolution == "replaced") != (replacement_id is not None):
        raise Refused("give replacement_id exactly when the resolution is replaced", code="bad_resolution")
    return _update(state, ticket, status="closed", resolution=resolution, replacement_id=replacement_id)


@tool(writes=True, cost_s=10)
def decline_ticket(state: State, ticket_id: TicketId, reason: DeclineReason) -> Result:
    """Decline an open ticket: no replacement is given."""
    return _update(state, _open_ticket(state, ticket_id), status="declined", reason=reason)


@tool(writes=True, cost_s=60)
def hand_off(
    state: State,
    ticket_id: TicketId,
    summary: NoteText,
    operation_id_in_doubt: Annotated[
        str | None, Field(description="The operation whose outcome you do not know, if any.", max_length=200)
    ] = None,
) -> Result:
    """Hand an open ticket to a person who can decide or look into the order service."""
    ticket = _open_ticket(state, ticket_id)
    return _update(state, ticket, status="handed_off", summary=summary, operation_id_in_doubt=operation_id_in_doubt)


@tool(writes=True, cost_s=10)
def add_note(state: State, ticket_id: TicketId, text: NoteText) -> Result:
    """Add a note to a ticket."""
    state.get(Ticket, "tickets", ticket_id)
    return {"note_id": write_note(state, ticket_id, text)}


@tool(writes=True, cost_s=10)
def schedule_callback(
    state: State,
    ticket_id: TicketId,
    after_s: Annotated[int, Field(ge=60, le=LONGEST_S, description="In how many seconds.")],
    note: NoteText,
) -> Result:
    """Have a ticket taken up again later: it is then open again, with the note added."""
    state.get(Ticket, "tickets", ticket_id)
    callback_id = f"C-{1000 + state.next_id('callbacks')}"
    due_s = state.now_s + after_s
    callback = Callback(callback_id=callback_id, ticket_id=ticket_id, note=note, due_s=due_s)
    state.save("callbacks", callback_id, callback)
    state.schedule("take_up_again", {"callback_id": callback_id}, after_s)
    return {"callback_id": callback_id, "due_in_s": after_s}


def write_note(state: State, ticket_id: str, text: str) -> str:
    """Save a note; its id."""
    note_id = f"N-{1000 + state.next_id('notes')}"
    state.save("notes", note_id, Note(note_id=note_id, ticket_id=ticket_id, text=text, at_s=state.now_s))
    return note_id


def _open_ticket(state: State, ticket_id: str) -> Ticket:
    ticket = state.get(Ticket, "tickets", ticket_id)
    if ticket.status != "open":
        raise Refused(f"ticket {ticket_id} is {ticket.status}, not open", code="ticket_not_open")
    return ticket


def _update(state: State, ticket: Ticket, **changes: object) -> Result:
    updated = ticket.model_copy(update=changes)
    state.save("tickets", ticket.ticket_id, updated)
    return {"ticket_id": updated.ticket_id, "status": updated.status}


WRITES = (
    request_approval,
    create_replacement,
    close_ticket,
    decline_ticket,
    hand_off,
    add_note,
    schedule_callback,
)
