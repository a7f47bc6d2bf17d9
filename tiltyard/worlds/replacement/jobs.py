"""What happens by itself when its time comes."""

from typing import Any

from tiltyard.worlds.kit import State, job
from tiltyard.worlds.replacement.entities import Approval, Callback, Replacement, Stock, Ticket
from tiltyard.worlds.replacement.writes import write_note


@job
def ship_replacement(state: State, replacement_id: str) -> None:
    """The warehouse hands the device to the carrier."""
    accepted = state.get(Replacement, "replacements", replacement_id)
    shipped = accepted.model_copy(update={"status": "shipped", "shipped_at_s": state.now_s})
    state.save("replacements", replacement_id, shipped)


@job
def amend_approval(state: State, approval_id: str, **changes: Any) -> None:
    """The approver decides, amends, revokes or supersedes an approval."""
    approval = state.get(Approval, "approvals", approval_id)
    amended = Approval.model_validate(approval.model_dump() | changes)
    state.save("approvals", approval_id, amended)


@job
def grant_approval(state: State, approval_id: str, ticket_id: str, model: str) -> None:
    """The approver gives a new approval without being asked; the ticket lists it."""
    granted = Approval(approval_id=approval_id, ticket_id=ticket_id, model=model, status="approved")
    ticket = state.get(Ticket, "tickets", ticket_id)
    state.save("approvals", approval_id, granted)
    listed = ticket.model_copy(update={"approval_ids": (*ticket.approval_ids, approval_id)})
    state.save("tickets", ticket_id, listed)


@job
def receive_stock(state: State, model: str, quantity: int) -> None:
    """A delivery arrives."""
    stock = state.get(Stock, "stock", model)
    arrived = stock.model_copy(update={"available": stock.available + quantity, "next_delivery_s": None})
    state.save("stock", model, arrived)


@job
def take_up_again(state: State, callback_id: str) -> None:
    """A callback falls due: its ticket is open again, whatever it was."""
    callback = state.get(Callback, "callbacks", callback_id)
    ticket = state.get(Ticket, "tickets", callback.ticket_id)
    state.save("callbacks", callback_id, callback.model_copy(update={"status": "done"}))
    state.save("tickets", ticket.ticket_id, ticket.model_copy(update={"status": "open"}))
    write_note(state, ticket.ticket_id, callback.note)


JOBS = (ship_replacement, amend_approval, grant_approval, receive_stock, take_up_again)
