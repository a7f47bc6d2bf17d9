"""Look-ups: what they find, and that they change nothing."""

import json

import pytest

from tiltyard.worlds.retail.world import WORLD

from .shop import ANN, Shop, order


@pytest.mark.parametrize("email", ["Ann.Lee@example.com", "ann.lee@EXAMPLE.com"])
def test_email_finds_whatever_its_case(email: str) -> None:
    assert Shop().call("find_user_id_by_email", email=email) == "ann_lee_1"


def test_unknown_email_is_refused() -> None:
    assert Shop().refused("find_user_id_by_email", email="ann@example.com") == "not_found"


@pytest.mark.parametrize(("first", "last"), [("Ann", "Lee"), ("ANN", "lee")])
def test_name_and_zip_find_whatever_the_case(first: str, last: str) -> None:
    shop = Shop()
    assert shop.call("find_user_id_by_name_zip", first_name=first, last_name=last, zip="83700") == "ann_lee_1"


@pytest.mark.parametrize(
    ("first", "last", "zip_code"), [("Ann", "Lee", "83701"), ("Bob", "Lee", "83700"), ("Ann", "Ray", "83700")]
)
def test_name_and_zip_must_belong_together(first: str, last: str, zip_code: str) -> None:
    shop = Shop()
    assert shop.refused("find_user_id_by_name_zip", first_name=first, last_name=last, zip=zip_code) == "not_found"


def test_user_details_are_the_user() -> None:
    assert Shop().call("get_user_details", user_id="ann_lee_1") == ANN.model_dump(mode="json")


def test_order_details_show_absent_fields_as_null() -> None:
    shown = Shop(order("pending")).call("get_order_details", order_id="#1")
    assert isinstance(shown, dict)
    assert shown["status"] == "pending"
    assert shown["cancel_reason"] is None
    assert shown["exchange_price_difference"] is None


def test_product_details_hold_every_variant() -> None:
    shown = Shop().call("get_product_details", product_id="mugs")
    assert isinstance(shown, dict)
    assert isinstance(shown["variants"], dict)
    assert sorted(shown["variants"]) == ["mug-gone", "mug-l", "mug-m", "mug-s", "mug-s2", "mug-xl"]


@pytest.mark.parametrize(("item_id", "price"), [("lamp", 50.0), ("mug-l", 30.35)])
def test_item_details_search_all_products(item_id: str, price: float) -> None:
    shown = Shop().call("get_item_details", item_id=item_id)
    assert isinstance(shown, dict)
    assert (shown["item_id"], shown["price"]) == (item_id, price)


@pytest.mark.parametrize(
    ("tool", "argument", "value"),
    [
        ("get_user_details", "user_id", "nobody"),
        ("get_order_details", "order_id", "#9"),
        ("get_product_details", "product_id", "mug-s"),
        ("get_item_details", "item_id", "mugs"),
    ],
)
def test_an_unknown_id_is_refused(tool: str, argument: str, value: str) -> None:
    assert Shop().refused(tool, **{argument: value}) == "not_found"


def test_product_types_are_json_text_sorted_by_name() -> None:
    text = Shop().call("list_all_product_types")
    assert isinstance(text, str)
    assert list(json.loads(text).items()) == [("Desk Lamp", "lamps"), ("Travel Mug", "mugs")]


def test_transfer_says_so() -> None:
    assert Shop().call("transfer_to_human_agents", summary="wants a pony") == "Transfer successful"


def test_reads_do_not_write_and_the_others_do() -> None:
    writes = {name for name, tool in WORLD.tools.items() if tool.spec.writes}
    assert writes == {
        "cancel_pending_order",
        "modify_pending_order_address",
        "modify_pending_order_items",
        "modify_pending_order_payment",
        "modify_user_address",
        "return_delivered_order_items",
        "exchange_delivered_order_items",
    }
    for tool in WORLD.tools.values():
        properties = tool.spec.parameters["properties"]
        assert isinstance(properties, dict)
        assert ("operation_id" in properties) == tool.spec.writes


@pytest.mark.parametrize("name", sorted(WORLD.tools))
def test_every_argument_is_described(name: str) -> None:
    spec = WORLD.tools[name].spec
    properties = spec.parameters["properties"]
    assert isinstance(properties, dict)
    for argument, schema in properties.items():
        assert isinstance(schema, dict)
        assert schema.get("description"), f"{name}.{argument}"
    assert len(spec.description) > 20
