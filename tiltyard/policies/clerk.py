"""One clerk's playbook for the ``replacement`` world; the scripts differ only in their ``Manner``."""

import re
from collections.abc import Generator
from dataclasses import dataclass

from pydantic import JsonValue

from schemas.base import JsonObject
from schemas.decision import Decision
from schemas.observation import Observation
from tiltyard.policies.documents import Ruling, ruling_on
from tiltyard.policies.lost_reply import ATTEMPTS, MEANS, Order
from tiltyard.policies.script import Brief, Moves, Script, call, field, give_up, submit

DAY_S = 86_400
TICKET = re.compile(r"\bT-\d+\b")
DELIVERIES = 3
"""How often the clerk waits for stock before handing the ticket off."""

Asking = Generator[Decision, Observation, Observation]


@dataclass(frozen=True)
class Manner:
    """How a clerk works. ``checks``: reads documents and approvals before ordering. ``when_lost``: means tried
    in turn after a lost reply; then the ticket is handed off. ``callback_after_s``: at the end has the ticket
    taken up again."""

    when_lost: tuple[str, ...] = ()
    checks: bool = True
    callback_after_s: int | None = None


@dataclass(frozen=True)
class Approved:
    """What the clerk holds to be covered."""

    approval_id: str
    model: str


@dataclass(frozen=True)
class NotApproved:
    reason: str


def clerk(manner: Manner) -> Script:
    """The script of a clerk with this manner."""

    def script(brief: Brief) -> Moves:
        ticket_id = TICKET.search(brief.instruction)
        if not ticket_id or "create_replacement" not in brief.tools:
            return give_up("this script plays tickets of the replacement world only")
        return (yield from _Desk(brief, manner, ticket_id[0]).work())

    return script


class _Desk:
    """One ticket on a clerk's desk: the steps of the playbook, in the order in which they are read."""

    def __init__(self, brief: Brief, manner: Manner, ticket_id: str) -> None:
        self._brief, self._manner, self._ticket_id = brief, manner, ticket_id

    def work(self) -> Moves:
        ticket = yield from self._insist("get_ticket", ticket_id=self._ticket_id)
        if ticket.status != "ok":
            return give_up(f"the ticket cannot be read: {ticket.message}")
        if self._manner.checks:
            ruling = yield from self._read_documents(str(field(ticket, "cause")))
            if ruling.verdict == "refuse":
                return (yield from self._decline("policy", policy_id=ruling.policy_id))
            if ruling.verdict == "undecided":
                return (yield from self._hand_off("documents of equal standing disagree", None))
        return (yield from self._order_when_covered(ticket))

    def _order_when_covered(self, ticket: Observation) -> Moves:
        """Order under a valid approval, read anew after every wait for stock."""
        for _ in range(DELIVERIES):
            cover = yield from self._cover(ticket)
            if isinstance(cover, NotApproved):
                return (yield from self._decline(cover.reason))
            order = self._order(ticket, cover)
            shown = yield order.send(order.operation_id)
            if shown.code != "out_of_stock":
                return (yield from self._finish_order(order, shown))
            stock = yield from self._insist("get_stock", model=cover.model)
            until = field(stock, "next_delivery_in_s")
            yield call("wait", seconds=until if isinstance(until, int) and until > 0 else DAY_S)
            ticket = yield from self._insist("get_ticket", ticket_id=self._ticket_id)
        return (yield from self._hand_off("the model does not come into stock", None))

    def _order(self, ticket: Observation, cover: Approved) -> Order:
        arguments: JsonObject = {
            "ticket_id": self._ticket_id,
            "serial": field(ticket, "serial"),
            "model": cover.model,
            "approval_id": cover.approval_id,
        }
        # Other arguments are another operation: an amended order has a name of its own.
        purpose = f"order-{cover.approval_id}-{cover.model}"
        return Order(self._brief, arguments, self._brief.operation_id(purpose))

    def _finish_order(self, order: Order, shown: Observation) -> Moves:
        if shown.status == "ok":
            return (yield from self._close(str(field(shown, "replacement_id"))))
        if shown.status == "error":
            return (yield from self._hand_off(f"the order is refused: {shown.message}", None))
        for means in self._manner.when_lost:
            replacement_id = yield from MEANS[means](order)
            if replacement_id:
                return (yield from self._close(replacement_id))
        return (yield from self._hand_off("the order's reply was lost", order.operation_id))

    def _read_documents(self, cause: str) -> Generator[Decision, Observation, Ruling]:
        listed = yield from self._insist("list_policies")
        entries = listed.content if isinstance(listed.content, list) else []
        documents = []
        for policy_id in [entry.get("policy_id") for entry in entries if isinstance(entry, dict)]:
            shown = yield from self._insist("get_policy", policy_id=policy_id)
            documents.append(shown.content)
        return ruling_on(cause, documents)

    def _cover(self, ticket: Observation) -> Generator[Decision, Observation, Approved | NotApproved]:
        """The newest approval that covers the ticket, or why none does."""
        ids = _texts(field(ticket, "approval_ids"))
        if not self._manner.checks:
            return (yield from self._assume_cover(ticket, ids))
        if not ids:
            ids = [(yield from self._request_approval(ticket))]
        reasons: list[str] = []
        for approval_id in reversed(ids):
            approval = yield from self._decided(approval_id)
            if approval.status != "ok":
                reasons.append("pending")
            elif field(approval, "ticket_id") != self._ticket_id:
                reasons.append("other_ticket")
            elif field(approval, "status") == "approved":
                return Approved(approval_id, str(field(approval, "model")))
            else:
                reasons.append(str(field(approval, "status")))
        return NotApproved(reasons[0])

    def _decided(self, approval_id: str) -> Asking:
        """An approval as it stands; a pending one is given a day."""
        approval = yield from self._insist("get_approval", approval_id=approval_id)
        if field(approval, "status") == "pending":
            yield call("wait", seconds=DAY_S)
            approval = yield from self._insist("get_approval", approval_id=approval_id)
        return approval

    def _assume_cover(self, ticket: Observation, ids: list[str]) -> Generator[Decision, Observation, Approved]:
        device = yield from self._insist("get_device", serial=field(ticket, "serial"))
        approval_id = ids[-1] if ids else (yield from self._request_approval(ticket))
        return Approved(approval_id, str(field(device, "model")))

    def _request_approval(self, ticket: Observation) -> Generator[Decision, Observation, str]:
        device = yield from self._insist("get_device", serial=field(ticket, "serial"))
        asked = yield from self._write("request_approval", model=field(device, "model"))
        return str(field(asked, "approval_id"))

    def _close(self, replacement_id: str) -> Moves:
        yield from self._write("close_ticket", resolution="replaced", replacement_id=replacement_id)
        if self._manner.callback_after_s is not None:
            note = "Ask whether the new device works."
            yield from self._write("schedule_callback", after_s=self._manner.callback_after_s, note=note)
        return submit({"outcome": "replaced", "replacement_id": replacement_id})

    def _decline(self, reason: str, **grounds: JsonValue) -> Moves:
        yield from self._write("decline_ticket", reason=reason)
        return submit({"outcome": "refused", "reason": reason, **grounds})

    def _hand_off(self, summary: str, operation_id: str | None) -> Moves:
        yield from self._write("hand_off", summary=summary, operation_id_in_doubt=operation_id)
        return submit({"outcome": "handed_off", "operation_id": operation_id})

    def _write(self, tool: str, **arguments: JsonValue) -> Asking:
        operation_id = self._brief.operation_id(tool)
        return (yield from self._insist(tool, ticket_id=self._ticket_id, **arguments, operation_id=operation_id))

    def _insist(self, tool: str, **arguments: JsonValue) -> Asking:
        """Call again while no reply comes: reads change nothing, and writes keep their operation id."""
        for _ in range(ATTEMPTS):
            shown = yield call(tool, **arguments)
            if shown.status != "timeout":
                break
        return shown


def _texts(value: JsonValue) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []
