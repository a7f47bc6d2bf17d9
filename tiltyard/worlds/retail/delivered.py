"""Tools for what a customer has in their hands. Both only ask; no money moves yet."""

from tiltyard.worlds.kit import Refused, State, tool
from tiltyard.worlds.retail.arguments import ItemIds, NewItemIds, OrderId, PaymentMethodId
from tiltyard.worlds.retail.entities import (
    EXCHANGE_REQUESTED,
    ORDERS,
    RETURN_REQUESTED,
    USERS,
    GiftCard,
    Order,
    User,
)
from tiltyard.worlds.retail.items import picked, price_difference, swaps
from tiltyard.worlds.retail.orders import require_delivered, saved_order
from tiltyard.worlds.retail.payments import method_of, require_cover


@tool(writes=True)
def return_delivered_order_items(
    state: State, order_id: OrderId, item_ids: ItemIds, payment_method_id: PaymentMethodId
) -> Order:
    """Ask to send items of a delivered order back.

    The refund goes to the order's original payment method or to a gift card of the user.
    """
    order = state.get(Order, ORDERS, order_id)
    require_delivered(order)
    method = method_of(state.get(User, USERS, order.user_id), payment_method_id)
    original = order.payment_history[0].payment_method_id
    if not isinstance(method, GiftCard) and method.id != original:
        raise Refused(
            f"payment_method_id: a refund goes to {original} or to a gift card of the user, not to {method.id}",
            code="wrong_payment_method",
        )
    picked(order, item_ids)
    return saved_order(
        state,
        order,
        status=RETURN_REQUESTED,
        return_items=tuple(sorted(item_ids)),
        return_payment_method_id=method.id,
    )


@tool(writes=True)
def exchange_delivered_order_items(
    state: State, order_id: OrderId, item_ids: ItemIds, new_item_ids: NewItemIds, payment_method_id: PaymentMethodId
) -> Order:
    """Ask to exchange items of a delivered order for available variants of the same products.

    Possible once for an order, so name all items at once. The same item again is allowed. The difference in price
    will be paid with or refunded to the payment method; a gift card must cover what is to be paid.
    """
    order = state.get(Order, ORDERS, order_id)
    require_delivered(order)
    difference = price_difference(swaps(state, order, item_ids, new_item_ids))
    method = method_of(state.get(User, USERS, order.user_id), payment_method_id)
    require_cover(method, difference)
    return saved_order(
        state,
        order,
        status=EXCHANGE_REQUESTED,
        exchange_items=tuple(sorted(item_ids)),
        exchange_new_items=tuple(sorted(new_item_ids)),
        exchange_payment_method_id=method.id,
        exchange_price_difference=difference,
    )
