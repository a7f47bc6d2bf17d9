"""modify_pending_order_items, sentence by sentence."""

import pytest
from pydantic import JsonValue

from .shop import Shop, entry, order

TOOL = "modify_pending_order_items"


def swap(old: list[str], new: list[str], method: str = "card") -> dict[str, JsonValue]:
    return {"order_id": "#1", "item_ids": [*old], "new_item_ids": [*new], "payment_method_id": method}


def test_status_becomes_item_modified_and_so_only_once() -> None:
    shop = Shop(order("pending"))
    shop.call(TOOL, **swap(["mug-s"], ["mug-m"]))
    assert shop.order["status"] == "pending (item modified)"
    shop.state.saved.clear()
    assert shop.refused(TOOL, **swap(["mug-m"], ["mug-l"])) == "wrong_status"


@pytest.mark.parametrize("status", ["pending (item modified)", "processed", "delivered", "cancelled"])
def test_status_must_be_exactly_pending(status: str) -> None:
    assert Shop(order(status)).refused(TOOL, **swap(["mug-s"], ["mug-m"])) == "wrong_status"


@pytest.mark.parametrize(("old", "new"), [(["mug-s"], []), (["mug-s"], ["mug-m", "mug-l"]), ([], ["mug-m"])])
def test_lists_must_be_of_equal_length(old: list[str], new: list[str]) -> None:
    assert Shop(order("pending")).refused(TOOL, **swap(old, new)) == "unequal_lengths"


def test_lists_must_not_be_empty() -> None:
    assert Shop(order("pending")).refused(TOOL, **swap([], [])) == "no_items"


def test_an_item_may_be_named_as_often_as_the_order_holds_it() -> None:
    shop = Shop(order("pending", "mug-s", "mug-s"))
    shop.call(TOOL, **swap(["mug-s", "mug-s"], ["mug-m", "mug-l"]))
    items = shop.order["items"]
    assert isinstance(items, list)
    assert [item["item_id"] for item in items if isinstance(item, dict)] == ["mug-m", "mug-l"]


@pytest.mark.parametrize("old", [["mug-s", "mug-s"], ["mug-m"]])
def test_and_not_more_often(old: list[str]) -> None:
    shop = Shop(order("pending", "mug-s", "lamp"))
    assert shop.refused(TOOL, **swap(old, ["mug-l"] * len(old))) == "item_not_in_order"


def test_new_item_must_differ_from_the_old_one() -> None:
    assert Shop(order("pending")).refused(TOOL, **swap(["mug-s"], ["mug-s"])) == "same_item"


def test_one_same_item_among_others_is_enough() -> None:
    shop = Shop(order("pending", "mug-s", "mug-m"))
    assert shop.refused(TOOL, **swap(["mug-s", "mug-m"], ["mug-l", "mug-m"])) == "same_item"


@pytest.mark.parametrize("new", ["lamp", "no-such-item"])
def test_new_item_must_be_of_the_same_product(new: str) -> None:
    assert Shop(order("pending")).refused(TOOL, **swap(["mug-s"], [new])) == "other_product"


def test_new_item_must_be_available() -> None:
    assert Shop(order("pending")).refused(TOOL, **swap(["mug-s"], ["mug-gone"])) == "not_available"


def test_a_difference_to_pay_is_appended_as_a_payment() -> None:
    shop = Shop(order("pending", "mug-s", "mug-m"))
    shop.call(TOOL, **swap(["mug-s", "mug-m"], ["mug-m", "mug-l"], "paypal"))
    assert shop.order["payment_history"] == [entry("payment", 30.3, "card"), entry("payment", 20.25, "paypal")]
    assert shop.state.saved == [("orders", "#1")]


def test_a_difference_to_get_back_is_appended_as_a_refund() -> None:
    shop = Shop(order("pending", "mug-l"))
    shop.call(TOOL, **swap(["mug-l"], ["mug-s"]))
    assert shop.order["payment_history"] == [entry("payment", 30.35, "card"), entry("refund", 20.25, "card")]


def test_no_difference_is_a_refund_of_nothing() -> None:
    shop = Shop(order("pending"))
    shop.call(TOOL, **swap(["mug-s"], ["mug-s2"], "gift"))
    assert shop.order["payment_history"] == [entry("payment", 10.1, "card"), entry("refund", 0.0, "gift")]
    assert shop.balance("gift") == 15.05


def test_a_gift_card_pays_the_difference() -> None:
    shop = Shop(order("pending"))
    shop.call(TOOL, **swap(["mug-s"], ["mug-m"], "gift"))
    assert shop.balance("gift") == 4.95


def test_a_gift_card_gets_the_difference_back() -> None:
    shop = Shop(order("pending", "mug-l"))
    shop.call(TOOL, **swap(["mug-l"], ["mug-s"], "gift"))
    assert shop.balance("gift") == 35.3


def test_a_gift_card_must_cover_the_difference() -> None:
    assert Shop(order("pending")).refused(TOOL, **swap(["mug-s"], ["mug-l"], "gift")) == "insufficient_balance"


def test_a_gift_card_that_holds_just_the_difference_covers_it() -> None:
    shop = Shop(order("pending"))
    shop.call(TOOL, **swap(["mug-s"], ["mug-xl"], "gift"))
    assert shop.balance("gift") == 0.0


def test_a_gift_card_need_not_cover_money_that_comes_back() -> None:
    shop = Shop(order("pending", "lamp", "mug-l"))
    shop.call(TOOL, **swap(["mug-l"], ["mug-s"], "gift"))
    assert shop.order["status"] == "pending (item modified)"


@pytest.mark.parametrize("method", ["bobs_card", "nothing"])
def test_the_method_must_belong_to_the_user(method: str) -> None:
    assert Shop(order("pending")).refused(TOOL, **swap(["mug-s"], ["mug-m"], method)) == "unknown_payment_method"


def test_each_item_takes_its_own_variants_id_price_and_options() -> None:
    shop = Shop(order("pending", "lamp", "mug-s", "mug-m"))
    shop.call(TOOL, **swap(["mug-m", "mug-s"], ["mug-l", "mug-m"]))
    items = shop.order["items"]
    assert isinstance(items, list)
    seen = [(i["item_id"], i["price"], i["options"], i["product_id"]) for i in items if isinstance(i, dict)]
    assert seen == [
        ("lamp", 50.0, {"size": "lamp"}, "lamps"),
        ("mug-m", 20.2, {"size": "m"}, "mugs"),
        ("mug-l", 30.35, {"size": "l"}, "mugs"),
    ]


def test_a_chain_of_swaps_moves_every_line_once() -> None:
    shop = Shop(order("pending", "mug-s", "mug-m"))
    shop.call(TOOL, **swap(["mug-s", "mug-m"], ["mug-m", "mug-l"]))
    items = shop.order["items"]
    assert isinstance(items, list)
    assert [i["item_id"] for i in items if isinstance(i, dict)] == ["mug-m", "mug-l"]
