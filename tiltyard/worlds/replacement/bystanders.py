"""Other customers with tickets of their own. Nothing of theirs belongs to any task."""

from typing import Any

from tiltyard.worlds.replacement.entities import Approval, ApprovalStatus, Customer, Device, Ticket

FIRST = ("Ada", "Bruno", "Chiara", "Dmitri", "Esra", "Fatou", "Goran", "Hana", "Ines", "Jonas", "Kaia")
LAST = ("Almeida", "Berg", "Castillo", "Dvorak", "Eriksen", "Fontaine", "Gruber")
MODELS = ("aria-7", "brio-2", "corvo-5")
FAULTS = (("will not start", "mainboard fault"), ("screen stays dark", "display fault"), ("no charge", "wear"))
STATUSES: tuple[ApprovalStatus, ...] = ("approved", "denied", "pending", "expired")


def bystanders(count: int) -> dict[str, dict[str, Any]]:
    """Rows of ``count`` other customers, by collection and key; always the same for the same count."""
    made = [_bystander(number) for number in range(count)]
    return {
        "customers": {customer.customer_id: customer for customer, _, _, _ in made},
        "devices": {device.serial: device for _, device, _, _ in made},
        "tickets": {ticket.ticket_id: ticket for _, _, ticket, _ in made},
        "approvals": {approval.approval_id: approval for _, _, _, approval in made},
    }


def _bystander(number: int) -> tuple[Customer, Device, Ticket, Approval]:
    # Lengths without a common divisor, so that the tables give many different people.
    name = f"{FIRST[number % len(FIRST)]} {LAST[number % len(LAST)]}"
    customer_id, serial, ticket_id, approval_id = (f"{p}-9{number:05}" for p in ("CU", "SN", "T", "A"))
    model = MODELS[number % len(MODELS)]
    problem, cause = FAULTS[number // 2 % len(FAULTS)]
    mailbox = f"{name.lower().replace(' ', '.')}{number}@example.com"
    address = f"{number % 180 + 1} Mill Lane"
    return (
        Customer(customer_id=customer_id, name=name, email=mailbox, address=address),
        Device(serial=serial, model=model, customer_id=customer_id, bought_on=f"2025-{number % 12 + 1:02}-11"),
        Ticket(
            ticket_id=ticket_id,
            customer_id=customer_id,
            serial=serial,
            problem=problem,
            cause=cause,
            approval_ids=(approval_id,),
        ),
        Approval(
            approval_id=approval_id, ticket_id=ticket_id, model=model, status=STATUSES[number % len(STATUSES)]
        ),
    )
