"""Tools that only look. None of them lists replacements: a lost order is found by its receipt alone."""

from typing import Annotated

from pydantic import Field, JsonValue

from tiltyard.worlds.kit import State, tool
from tiltyard.worlds.replacement.documents import HELP
from tiltyard.worlds.replacement.entities import Approval, Customer, Device, Policy, Stock, Ticket

TicketId = Annotated[str, Field(description="The ticket, such as T-2041.")]
ApprovalId = Annotated[str, Field(description="The approval, such as A-310; a ticket lists its own.")]
Model = Annotated[str, Field(description="The model's name, such as aria-7.")]


@tool(cost_s=1)
def help_(state: State) -> str:
    """How the service desk works, and what each tool is for."""
    return HELP


@tool(cost_s=5)
def get_ticket(state: State, ticket_id: TicketId) -> Ticket:
    """A ticket: customer, device, problem, cause, its approvals and its status."""
    return state.get(Ticket, "tickets", ticket_id)


@tool(cost_s=5)
def get_customer(state: State, customer_id: str) -> Customer:
    """A customer's name, e-mail and address."""
    return state.get(Customer, "customers", customer_id)


@tool(cost_s=5)
def get_device(state: State, serial: Annotated[str, Field(description="Serial number.")]) -> Device:
    """A device: its model, its owner and when it was bought."""
    return state.get(Device, "devices", serial)


@tool(cost_s=5)
def get_stock(state: State, model: Model) -> dict[str, JsonValue]:
    """How many of a model are in stock, and in how many seconds the next delivery arrives (null: not known)."""
    stock = state.get(Stock, "stock", model)
    due = stock.next_delivery_s
    wait = None if due is None else max(0, due - state.now_s)
    return {"model": stock.model, "available": stock.available, "next_delivery_in_s": wait}


@tool(cost_s=5)
def list_policies(state: State) -> list[dict[str, JsonValue]]:
    """The documents in force: id, title, rank and date. Read one with get_policy."""
    return [policy.model_dump(exclude={"text"}) for policy in state.all(Policy, "policies")]


@tool(cost_s=20)
def get_policy(state: State, policy_id: Annotated[str, Field(description="Such as POL-1.")]) -> Policy:
    """The text of a policy document."""
    return state.get(Policy, "policies", policy_id)


@tool(cost_s=5)
def get_approval(state: State, approval_id: ApprovalId) -> Approval:
    """An approval as it stands now: its status, and the ticket and the model that it was given for."""
    return state.get(Approval, "approvals", approval_id)


READS = (help_, get_ticket, get_customer, get_device, get_stock, list_policies, get_policy, get_approval)
