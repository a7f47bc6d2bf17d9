"""Who pays with what. Gift cards hold money here; the other methods only appear in payment histories."""

from collections.abc import Iterator
from decimal import Decimal

from tiltyard.worlds.kit import Refused
from tiltyard.worlds.retail.entities import GiftCard, Order, Payment, PaymentMethod, User
from tiltyard.worlds.retail.money import NOTHING


def method_of(user: User, method_id: str) -> PaymentMethod:
    """The user's payment method. Raises ``Refused`` when it is not one of theirs."""
    method = user.payment_methods.get(method_id)
    if method is None:
        known = ", ".join(sorted(user.payment_methods)) or "none"
        raise Refused(
            f"payment_method_id: {method_id} is not a payment method of {user.user_id} (theirs: {known})",
            code="unknown_payment_method",
        )
    return method


def require_cover(method: PaymentMethod, amount: Decimal) -> None:
    """Raises ``Refused`` when a gift card holds less than ``amount``. Nothing is owed for a negative amount."""
    if isinstance(method, GiftCard) and method.balance < amount:
        raise Refused(
            f"payment_method_id: {method.id} holds {method.balance}, which does not cover {amount}",
            code="insufficient_balance",
        )


def credited(user: User, method: PaymentMethod, amount: Decimal) -> User:
    """The user after ``amount`` has gone to ``method`` (negative: has been taken from it)."""
    if not isinstance(method, GiftCard) or amount == NOTHING:
        return user
    held = user.payment_methods[method.id]
    assert isinstance(held, GiftCard)
    card = held.model_copy(update={"balance": held.balance + amount})
    return user.model_copy(update={"payment_methods": user.payment_methods | {card.id: card}})


def unrefunded(order: Order) -> Iterator[tuple[str, Decimal]]:
    """What was paid with each method less what was refunded to it already, in the order of first use."""
    left: dict[str, Decimal] = {}
    for entry in order.payment_history:
        sign = 1 if entry.transaction_type == "payment" else -1
        left[entry.payment_method_id] = left.get(entry.payment_method_id, NOTHING) + sign * entry.amount
    return ((method_id, amount) for method_id, amount in left.items() if amount > NOTHING)


def difference_entry(difference: Decimal, method_id: str) -> Payment:
    """How a difference in price is booked: a payment when it is positive, a refund otherwise, also at zero."""
    return Payment(
        transaction_type="payment" if difference > NOTHING else "refund",
        amount=abs(difference),
        payment_method_id=method_id,
    )
