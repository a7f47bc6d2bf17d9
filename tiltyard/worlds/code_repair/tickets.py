"""The ticket desk: what it holds and its tools. Times are virtual seconds since the episode's start."""

from typing import Annotated, Literal

from pydantic import Field, JsonValue

from tiltyard.worlds.kit import Entity, Refused, State, tool

Id = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
Text = Annotated[str, Field(min_length=1, max_length=4000)]
TicketId = Annotated[str, Field(description="The ticket, such as DESK-101.")]


class Ticket(Entity):
    """A fault that somebody has met. ``summary`` says what was done about it, once it is closed."""

    ticket_id: Id
    title: Text
    report: Text
    status: Literal["open", "closed"] = "open"
    summary: str | None = None


@tool(cost_s=5)
def get_ticket(state: State, ticket_id: TicketId) -> Ticket:
    """A ticket: its title, what was reported, and its status."""
    return state.get(Ticket, "tickets", ticket_id)


@tool(writes=True, cost_s=10)
def close_ticket(
    state: State,
    ticket_id: TicketId,
    summary: Annotated[str, Field(min_length=1, max_length=2000, description="What was wrong, and what was done.")],
) -> dict[str, JsonValue]:
    """Close an open ticket. The desk does not look at the project."""
    ticket = state.get(Ticket, "tickets", ticket_id)
    if ticket.status != "open":
        raise Refused(f"ticket {ticket_id} is {ticket.status}, not open", code="ticket_not_open")
    state.save("tickets", ticket_id, ticket.model_copy(update={"status": "closed", "summary": summary}))
    return {"ticket_id": ticket_id, "status": "closed"}
