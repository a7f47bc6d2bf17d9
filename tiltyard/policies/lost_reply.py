"""What a clerk can do when an order's reply was lost: one function a means.

Each takes the order and gives the replacement's id, or ``None`` when it settled nothing.
"""

from collections.abc import Callable, Generator
from dataclasses import dataclass
from types import MappingProxyType

from pydantic import JsonValue

from schemas.base import JsonObject
from schemas.decision import Decision
from schemas.observation import Observation
from tiltyard.policies.script import Brief, call, field

ATTEMPTS = 3
POLL_S = 6 * 3600
POLLS = 4


@dataclass(frozen=True)
class Order:
    """An order as it is sent, and the operation id that it was first sent under."""

    brief: Brief
    arguments: JsonObject
    operation_id: str

    def send(self, operation_id: str) -> Decision:
        return call("create_replacement", **self.arguments, operation_id=operation_id)


Settling = Generator[Decision, Observation, str | None]
Means = Callable[[Order], Settling]


def ask_for_receipt(order: Order) -> Settling:
    """Ask whether the order was accepted; wait while the answer is pending; resend what was not accepted."""
    for _ in range(POLLS):
        shown = yield call("get_receipt", operation_id=order.operation_id)
        if shown.status == "ok":
            return _replacement_id(field(shown, "result"))
        if shown.code == "not_found":
            return (yield from resend(order))
        if shown.code != "receipt_pending":
            return None
        yield call("wait", seconds=POLL_S)
    return None


def resend(order: Order) -> Settling:
    """Send the same order again under the same operation id: it cannot take effect twice."""
    return (yield from _send(order, order.operation_id))


def order_anew(order: Order) -> Settling:
    """Send the order again under another operation id: a second order, if the first was accepted."""
    return (yield from _send(order, order.brief.operation_id("order-again")))


def _send(order: Order, operation_id: str) -> Settling:
    for _ in range(ATTEMPTS):
        shown = yield order.send(operation_id)
        if shown.status == "ok":
            return _replacement_id(shown.content)
    return None


def _replacement_id(content: JsonValue) -> str | None:
    found = content.get("replacement_id") if isinstance(content, dict) else None
    return found if isinstance(found, str) else None


MEANS = MappingProxyType({"receipt": ask_for_receipt, "resend": resend, "order_anew": order_anew})
