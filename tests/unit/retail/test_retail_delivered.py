"""return_delivered_order_items and exchange_delivered_order_items, sentence by sentence."""

import pytest
from pydantic import JsonValue

from .shop import ANN, Shop, booked, entry, order

RETURN = "return_delivered_order_items"
EXCHANGE = "exchange_delivered_order_items"
OTHER_STATUSES = ["pending", "processed", "cancelled", "return requested", "exchange requested"]


def back(items: list[str], method: str = "card") -> dict[str, JsonValue]:
    return {"order_id": "#1", "item_ids": [*items], "payment_method_id": method}


def swap(old: list[str], new: list[str], method: str = "card") -> dict[str, JsonValue]:
    return back(old, method) | {"new_item_ids": [*new]}


@pytest.mark.parametrize("status", OTHER_STATUSES)
def test_only_delivered_orders(status: str) -> None:
    assert Shop(order(status)).refused(RETURN, **back(["mug-s"])) == "wrong_status"
    assert Shop(order(status)).refused(EXCHANGE, **swap(["mug-s"], ["mug-m"])) == "wrong_status"


def test_unknown_order_is_refused() -> None:
    assert Shop().refused(RETURN, **back(["mug-s"])) == "not_found"
    assert Shop().refused(EXCHANGE, **swap(["mug-s"], ["mug-m"])) == "not_found"


@pytest.mark.parametrize("method", ["bobs_card", "nothing"])
def test_the_method_must_belong_to_the_user(method: str) -> None:
    shop = Shop(order("delivered"))
    assert shop.refused(RETURN, **back(["mug-s"], method)) == "unknown_payment_method"
    assert shop.refused(EXCHANGE, **swap(["mug-s"], ["mug-m"], method)) == "unknown_payment_method"


def test_return_sets_sorted_items_method_and_status_and_moves_no_money() -> None:
    shop = Shop(order("delivered", "mug-s", "lamp", "mug-m"))
    before = shop.order
    shop.call(RETURN, **back(["mug-s", "lamp"], "gift"))
    assert shop.order == before | {
        "status": "return requested",
        "return_items": ["lamp", "mug-s"],
        "return_payment_method_id": "gift",
    }
    assert shop.user == ANN


@pytest.mark.parametrize("method", ["card", "gift", "big_gift"])
def test_return_goes_to_the_first_method_or_any_gift_card(method: str) -> None:
    history = (booked("payment", 10.1, "card"), booked("payment", 10.1, "paypal"), booked("refund", 10.1, "card"))
    shop = Shop(order("delivered", history=history))
    shop.call(RETURN, **back(["mug-s"], method))
    assert shop.order["return_payment_method_id"] == method


def test_return_to_another_method_is_refused() -> None:
    history = (booked("payment", 10.1, "card"), booked("payment", 10.1, "paypal"), booked("refund", 10.1, "card"))
    shop = Shop(order("delivered", history=history))
    assert shop.refused(RETURN, **back(["mug-s"], "paypal")) == "wrong_payment_method"


def test_return_of_as_many_as_the_order_holds() -> None:
    shop = Shop(order("delivered", "mug-s", "mug-s"))
    shop.call(RETURN, **back(["mug-s", "mug-s"]))
    assert shop.order["return_items"] == ["mug-s", "mug-s"]


@pytest.mark.parametrize("items", [["mug-s", "mug-s"], ["mug-m"], ["mug-s", "mug-m"]])
def test_return_of_more_than_that_is_refused(items: list[str]) -> None:
    assert Shop(order("delivered")).refused(RETURN, **back(items)) == "item_not_in_order"


def test_return_of_nothing_is_refused() -> None:
    assert Shop(order("delivered")).refused(RETURN, **back([])) == "no_items"


def test_exchange_sets_sorted_lists_method_difference_and_status_and_moves_no_money() -> None:
    shop = Shop(order("delivered", "mug-s", "mug-m", "lamp"))
    before = shop.order
    shop.call(EXCHANGE, **swap(["mug-s", "mug-m"], ["mug-m", "mug-l"], "big_gift"))
    assert shop.order == before | {
        "status": "exchange requested",
        "exchange_items": ["mug-m", "mug-s"],
        "exchange_new_items": ["mug-l", "mug-m"],
        "exchange_payment_method_id": "big_gift",
        "exchange_price_difference": 20.25,
    }
    assert shop.user == ANN
    assert shop.order["payment_history"] == [entry("payment", 80.3, "card")]


@pytest.mark.parametrize(
    ("old", "new", "difference"), [("mug-l", "mug-s", -20.25), ("mug-s", "mug-s2", 0.0), ("mug-s", "mug-s", 0.0)]
)
def test_exchange_difference_may_be_negative_or_zero_and_the_item_the_same(
    old: str, new: str, difference: float
) -> None:
    shop = Shop(order("delivered", old))
    shop.call(EXCHANGE, **swap([old], [new], "gift"))
    assert shop.order["exchange_price_difference"] == difference


@pytest.mark.parametrize(("old", "new"), [(["mug-s"], []), ([], ["mug-m"]), (["mug-s"], ["mug-m", "mug-l"])])
def test_exchange_lists_must_be_of_equal_length(old: list[str], new: list[str]) -> None:
    assert Shop(order("delivered")).refused(EXCHANGE, **swap(old, new)) == "unequal_lengths"


def test_exchange_lists_must_not_be_empty() -> None:
    assert Shop(order("delivered")).refused(EXCHANGE, **swap([], [])) == "no_items"


def test_exchange_of_more_than_the_order_holds_is_refused() -> None:
    shop = Shop(order("delivered"))
    assert shop.refused(EXCHANGE, **swap(["mug-s", "mug-s"], ["mug-m", "mug-l"])) == "item_not_in_order"


@pytest.mark.parametrize(("new", "code"), [("lamp", "other_product"), ("none", "other_product")])
def test_exchange_within_the_product(new: str, code: str) -> None:
    assert Shop(order("delivered")).refused(EXCHANGE, **swap(["mug-s"], [new])) == code


def test_exchange_for_what_is_not_available_is_refused_even_for_the_same_item() -> None:
    assert Shop(order("delivered")).refused(EXCHANGE, **swap(["mug-s"], ["mug-gone"])) == "not_available"
    assert (
        Shop(order("delivered", "mug-gone")).refused(EXCHANGE, **swap(["mug-gone"], ["mug-gone"]))
        == "not_available"
    )


def test_exchange_on_a_gift_card_that_does_not_cover_the_difference_is_refused() -> None:
    shop = Shop(order("delivered"))
    assert shop.refused(EXCHANGE, **swap(["mug-s"], ["mug-l"], "gift")) == "insufficient_balance"


def test_exchange_works_once() -> None:
    shop = Shop(order("delivered"))
    shop.call(EXCHANGE, **swap(["mug-s"], ["mug-m"]))
    shop.state.saved.clear()
    assert shop.refused(EXCHANGE, **swap(["mug-s"], ["mug-m"])) == "wrong_status"
    assert shop.refused(RETURN, **back(["mug-s"])) == "wrong_status"
