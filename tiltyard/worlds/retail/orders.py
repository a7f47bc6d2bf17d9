"""What an order's state permits, and how a changed order or user is saved."""

from tiltyard.worlds.kit import Refused, State
from tiltyard.worlds.retail.entities import DELIVERED, ORDERS, PENDING, USERS, Order, Payment, User


def require_untouched(order: Order) -> None:
    """Raises ``Refused`` unless the status is exactly pending: neither shipped nor modified before."""
    if order.status != PENDING:
        raise Refused(f"order_id: {order.order_id} is '{order.status}', not '{PENDING}'", code="wrong_status")


def require_pending(order: Order) -> None:
    """Raises ``Refused`` unless the order is pending, its items modified or not."""
    if PENDING not in order.status:
        raise Refused(f"order_id: {order.order_id} is '{order.status}', not pending", code="wrong_status")


def require_delivered(order: Order) -> None:
    """Raises ``Refused`` unless the status is exactly delivered: nothing has been asked for yet."""
    if order.status != DELIVERED:
        raise Refused(f"order_id: {order.order_id} is '{order.status}', not '{DELIVERED}'", code="wrong_status")


def only_payment(order: Order) -> Payment:
    """The order's payment. Raises ``Refused`` when anything else has been booked."""
    first, *more = order.payment_history
    if more or first.transaction_type != "payment":
        raise Refused(f"order_id: {order.order_id} has more booked than one payment", code="payment_changed")
    return first


def saved_order(state: State, order: Order, **changes: object) -> Order:
    """Save the order with ``changes``; the order as it is now. What is equal leaves no trace in the ledger."""
    changed = order.model_copy(update=changes)
    if changed != order:
        state.save(ORDERS, changed.order_id, changed)
    return changed


def saved_user(state: State, before: User, after: User) -> User:
    """Save a user; the user as they are now. What is equal leaves no trace in the ledger."""
    if after != before:
        state.save(USERS, after.user_id, after)
    return after
