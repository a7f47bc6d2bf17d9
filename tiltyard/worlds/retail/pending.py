"""Tools that change orders which have not left the warehouse."""

from typing import Annotated, Literal

from pydantic import Field

from tiltyard.worlds.kit import Refused, State, tool
from tiltyard.worlds.retail.arguments import ItemIds, NewItemIds, OrderId, PaymentMethodId
from tiltyard.worlds.retail.entities import CANCELLED, ITEM_MODIFIED, ORDERS, USERS, Order, Payment, User
from tiltyard.worlds.retail.items import price_difference, swapped, swaps
from tiltyard.worlds.retail.orders import only_payment, require_pending, require_untouched, saved_order, saved_user
from tiltyard.worlds.retail.payments import credited, difference_entry, method_of, require_cover, unrefunded

Reason = Annotated[
    Literal["no longer needed", "ordered by mistake"], Field(description="Why: no other reason is accepted.")
]


@tool(writes=True)
def cancel_pending_order(state: State, order_id: OrderId, reason: Reason) -> Order:
    """Cancel an order whose status is exactly 'pending', and refund it.

    Each payment method gets back what was paid with it. A gift card's balance rises at once.
    """
    order = state.get(Order, ORDERS, order_id)
    require_untouched(order)
    user = refunded = state.get(User, USERS, order.user_id)
    refunds = []
    for method_id, amount in unrefunded(order):
        refunded = credited(refunded, method_of(user, method_id), amount)
        refunds.append(Payment(transaction_type="refund", amount=amount, payment_method_id=method_id))
    saved_user(state, user, refunded)
    return saved_order(
        state,
        order,
        status=CANCELLED,
        cancel_reason=reason,
        payment_history=(*order.payment_history, *refunds),
    )


@tool(writes=True)
def modify_pending_order_items(
    state: State, order_id: OrderId, item_ids: ItemIds, new_item_ids: NewItemIds, payment_method_id: PaymentMethodId
) -> Order:
    """Replace items of an order whose status is exactly 'pending' by other variants of the same products.

    Possible once for an order, so name all items at once. The difference in price is paid with or refunded to
    the payment method; a gift card must cover what is to be paid.
    """
    order = state.get(Order, ORDERS, order_id)
    require_untouched(order)
    chosen = swaps(state, order, item_ids, new_item_ids)
    unchanged = next((swap for swap in chosen if swap.new.item_id == swap.old.item_id), None)
    if unchanged:
        raise Refused(f"new_item_ids: {unchanged.new.item_id} is the item itself", code="same_item")
    user = state.get(User, USERS, order.user_id)
    method = method_of(user, payment_method_id)
    difference = price_difference(chosen)
    require_cover(method, difference)
    saved_user(state, user, credited(user, method, -difference))
    return saved_order(
        state,
        order,
        status=ITEM_MODIFIED,
        items=swapped(order, chosen),
        payment_history=(*order.payment_history, difference_entry(difference, method.id)),
    )


@tool(writes=True)
def modify_pending_order_payment(state: State, order_id: OrderId, payment_method_id: PaymentMethodId) -> Order:
    """Pay a pending order with another payment method.

    Possible while the order has had one payment and nothing else. The old method is refunded; a gift card must
    cover the whole amount.
    """
    order = state.get(Order, ORDERS, order_id)
    require_pending(order)
    paid = only_payment(order)
    user = state.get(User, USERS, order.user_id)
    old, new = method_of(user, paid.payment_method_id), method_of(user, payment_method_id)
    if new.id == old.id:
        raise Refused(f"payment_method_id: the order is already paid with {new.id}", code="same_payment_method")
    require_cover(new, paid.amount)
    saved_user(state, user, credited(credited(user, new, -paid.amount), old, paid.amount))
    entries = (
        Payment(transaction_type="payment", amount=paid.amount, payment_method_id=new.id),
        Payment(transaction_type="refund", amount=paid.amount, payment_method_id=old.id),
    )
    return saved_order(state, order, payment_history=(*order.payment_history, *entries))
