"""cancel_pending_order, sentence by sentence."""

import pytest

from .shop import Shop, booked, entry, order

TOOL = "cancel_pending_order"
NO_NEED = "no longer needed"


@pytest.mark.parametrize("reason", [NO_NEED, "ordered by mistake"])
def test_sets_status_and_reason(reason: str) -> None:
    shop = Shop(order("pending"))
    shown = shop.call(TOOL, order_id="#1", reason=reason)
    assert (shop.order["status"], shop.order["cancel_reason"]) == ("cancelled", reason)
    assert shown == shop.order


@pytest.mark.parametrize("reason", ["too expensive", "No longer needed", ""])
def test_other_reasons_are_refused(reason: str) -> None:
    assert Shop(order("pending")).refused(TOOL, order_id="#1", reason=reason) == "bad_arguments"


@pytest.mark.parametrize("status", ["pending (item modified)", "processed", "delivered", "cancelled"])
def test_status_must_be_exactly_pending(status: str) -> None:
    assert Shop(order(status)).refused(TOOL, order_id="#1", reason=NO_NEED) == "wrong_status"


def test_unknown_order_is_refused() -> None:
    assert Shop(order("pending")).refused(TOOL, order_id="#2", reason=NO_NEED) == "not_found"


def test_refunds_what_was_paid() -> None:
    shop = Shop(order("pending", "mug-s", "mug-m"))
    shop.call(TOOL, order_id="#1", reason=NO_NEED)
    assert shop.order["payment_history"] == [entry("payment", 30.3, "card"), entry("refund", 30.3, "card")]
    assert shop.state.saved == [("orders", "#1")]


def test_refunds_each_method_what_is_left_of_its_payments() -> None:
    history = (
        booked("payment", 30.3, "paypal"),
        booked("payment", 10.1, "gift"),
        booked("refund", 5.1, "paypal"),
        booked("payment", 0.2, "paypal"),
    )
    shop = Shop(order("pending", history=history))
    shop.call(TOOL, order_id="#1", reason=NO_NEED)
    refunds = [entry("refund", 25.4, "paypal"), entry("refund", 10.1, "gift")]
    after = shop.order["payment_history"]
    assert isinstance(after, list)
    assert after[4:] == refunds


def test_refunds_nothing_to_a_method_that_was_refunded_already() -> None:
    shop = Shop(order("pending"))
    shop.call("modify_pending_order_payment", order_id="#1", payment_method_id="paypal")
    shop.call(TOOL, order_id="#1", reason=NO_NEED)
    assert shop.order["payment_history"] == [
        entry("payment", 10.1, "card"),
        entry("payment", 10.1, "paypal"),
        entry("refund", 10.1, "card"),
        entry("refund", 10.1, "paypal"),
    ]


def test_refund_to_a_gift_card_raises_its_balance_at_once() -> None:
    shop = Shop(order("pending", paid_with="gift"))
    shop.call(TOOL, order_id="#1", reason=NO_NEED)
    assert shop.balance("gift") == 25.15
    assert shop.balance("big_gift") == 100.0
