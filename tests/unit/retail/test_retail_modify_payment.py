"""modify_pending_order_payment, sentence by sentence."""

import pytest

from .shop import Shop, booked, entry, order

TOOL = "modify_pending_order_payment"


@pytest.mark.parametrize("status", ["pending", "pending (item modified)"])
def test_any_pending_status_will_do_and_stays(status: str) -> None:
    shop = Shop(order(status))
    shop.call(TOOL, order_id="#1", payment_method_id="paypal")
    assert shop.order["status"] == status


@pytest.mark.parametrize("status", ["processed", "delivered", "cancelled"])
def test_other_statuses_are_refused(status: str) -> None:
    assert Shop(order(status)).refused(TOOL, order_id="#1", payment_method_id="paypal") == "wrong_status"


def test_appends_the_new_payment_and_the_refund_of_the_old() -> None:
    shop = Shop(order("pending"))
    shop.call(TOOL, order_id="#1", payment_method_id="paypal")
    assert shop.order["payment_history"] == [
        entry("payment", 10.1, "card"),
        entry("payment", 10.1, "paypal"),
        entry("refund", 10.1, "card"),
    ]
    assert shop.state.saved == [("orders", "#1")]


def test_more_than_one_entry_is_refused() -> None:
    history = (booked("payment", 5, "card"), booked("payment", 5, "paypal"))
    shop = Shop(order("pending", history=history))
    assert shop.refused(TOOL, order_id="#1", payment_method_id="gift") == "payment_changed"


def test_a_history_of_one_refund_is_refused() -> None:
    shop = Shop(order("pending", history=(booked("refund", 5, "card"),)))
    assert shop.refused(TOOL, order_id="#1", payment_method_id="gift") == "payment_changed"


def test_so_it_works_only_once() -> None:
    shop = Shop(order("pending"))
    shop.call(TOOL, order_id="#1", payment_method_id="paypal")
    shop.state.saved.clear()
    assert shop.refused(TOOL, order_id="#1", payment_method_id="gift") == "payment_changed"


def test_the_method_must_be_another_one() -> None:
    assert Shop(order("pending")).refused(TOOL, order_id="#1", payment_method_id="card") == "same_payment_method"


@pytest.mark.parametrize("method", ["bobs_card", "nothing"])
def test_the_method_must_belong_to_the_user(method: str) -> None:
    assert Shop(order("pending")).refused(TOOL, order_id="#1", payment_method_id=method) == "unknown_payment_method"


def test_a_gift_card_must_cover_the_amount() -> None:
    shop = Shop(order("pending", "mug-m"))
    assert shop.refused(TOOL, order_id="#1", payment_method_id="gift") == "insufficient_balance"


def test_a_gift_card_that_holds_just_the_amount_covers_it() -> None:
    shop = Shop(order("pending", history=(booked("payment", 15.05, "card"),)))
    shop.call(TOOL, order_id="#1", payment_method_id="gift")
    assert shop.balance("gift") == 0.0


def test_balances_of_both_gift_cards_move() -> None:
    shop = Shop(order("pending", "mug-s", paid_with="big_gift"))
    shop.call(TOOL, order_id="#1", payment_method_id="gift")
    assert (shop.balance("gift"), shop.balance("big_gift")) == (4.95, 110.1)


def test_unknown_order_is_refused() -> None:
    assert Shop().refused(TOOL, order_id="#1", payment_method_id="gift") == "not_found"
