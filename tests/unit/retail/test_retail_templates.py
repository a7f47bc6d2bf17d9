"""Starting states: generated ones are equal everywhere, files are checked."""

import json
from decimal import Decimal
from pathlib import Path

import pytest
from pydantic import JsonValue

from schemas.base import JsonObject
from tiltyard.errors import BadInput
from tiltyard.worlds.kit import Template
from tiltyard.worlds.retail.entities import Order, Product, User
from tiltyard.worlds.retail.money import to_cents
from tiltyard.worlds.retail.templates import template

DEFAULT_DIGEST = "sha256:805e88639ec94073fa68ae20a39fee57cd1c3ea27e3d687c1736e87a160d6a55"


def test_default_is_the_same_on_every_machine() -> None:
    assert template("default", {}).digest == DEFAULT_DIGEST


def test_default_has_its_size_and_another_seed_another_shop() -> None:
    shop = template("default", {})
    assert {name: len(rows) for name, rows in shop.rows.items()} == {"orders": 40, "products": 12, "users": 20}
    assert template("default", {"seed": 1}).digest != shop.digest


@pytest.mark.parametrize(
    "params",
    [{}, {"seed": 7, "users": 300, "orders": 900, "products": 16}, {"users": 1, "orders": 1, "products": 1}],
)
def test_generated_shops_hold_together(params: JsonObject) -> None:
    rows = template("default", params).rows
    products = {key: Product.model_validate_json(body) for key, body in rows["products"].items()}
    users = {key: User.model_validate_json(body) for key, body in rows["users"].items()}
    orders = {key: Order.model_validate_json(body) for key, body in rows["orders"].items()}
    assert len(users) == params.get("users", 20)
    assert len(orders) == params.get("orders", 40)
    items = [item for product in products.values() for item in product.variants]
    methods = [method for user in users.values() for method in user.payment_methods]
    assert len(set(items)) == len(items)
    assert len(set(methods)) == len(methods)
    for key, order in orders.items():
        assert key in users[order.user_id].orders
        assert order.payment_history[0].amount == sum(line.price for line in order.items)
        assert order.payment_history[0].payment_method_id in users[order.user_id].payment_methods
        for line in order.items:
            assert line.price == products[line.product_id].variants[line.item_id].price


def test_default_offers_every_kind_of_work() -> None:
    orders = [json.loads(body) for body in template("default", {}).rows["orders"].values()]
    assert {order["status"] for order in orders} == {"pending", "delivered", "processed", "cancelled"}
    assert any(len({line["item_id"] for line in order["items"]}) < len(order["items"]) for order in orders)


@pytest.mark.parametrize(
    ("name", "params", "field"),
    [
        ("default", {"users": 0}, "template.params.users"),
        ("default", {"users": "20"}, "template.params.users"),
        ("default", {"orders": 10_001}, "template.params.orders"),
        ("default", {"products": 17}, "template.params.products"),
        ("default", {"seed": -1}, "template.params.seed"),
        ("default", {"size": 3}, "template.params.size"),
        ("file", {}, "template.params.path"),
        ("file", {"path": ""}, "template.params.path"),
        ("file", {"path": "/nowhere/db.json"}, "template.params.path"),
        ("file", {"path": "/"}, "template.params.path"),
        ("huge", {}, "template.name"),
    ],
)
def test_bad_parameters_are_named(name: str, params: JsonObject, field: str) -> None:
    with pytest.raises(BadInput) as error:
        template(name, params)
    assert error.value.field == field
    assert error.value.fix


def shop_as_json() -> dict[str, dict[str, JsonObject]]:
    rows = template("default", {}).rows
    return {name: {key: json.loads(body) for key, body in bodies.items()} for name, bodies in rows.items()}


def from_file(folder: Path, data: JsonValue | dict[str, dict[str, JsonObject]]) -> Template:
    path = folder / "db.json"
    path.write_text(json.dumps(data))
    return template("file", {"path": str(path)})


def test_a_file_gives_the_shop_that_it_holds(tmp_path: Path) -> None:
    assert from_file(tmp_path, shop_as_json()).digest == template("default", {}).digest


def test_absent_optional_fields_are_null(tmp_path: Path) -> None:
    data = shop_as_json()
    for order in data["orders"].values():
        for name in [name for name, value in order.items() if value is None]:
            del order[name]
    assert from_file(tmp_path, data).digest == template("default", {}).digest


def test_money_in_a_file_is_rounded_to_cents(tmp_path: Path) -> None:
    data = shop_as_json()
    key, order = next(iter(data["orders"].items()))
    items = order["items"]
    assert isinstance(items, list)
    assert isinstance(items[0], dict)
    items[0]["price"] = 0.1 + 0.2
    body = json.loads(from_file(tmp_path, data).rows["orders"][key])
    assert body["items"][0]["price"] == 0.3


BAD_SHOPS: list[tuple[str, str, JsonValue]] = [
    ("users.*.email", "users.*.email", 3),
    ("orders.*.status", "orders.*.status", None),
    ("orders.*.payment_history", "orders.*.payment_history", []),
    ("orders.*.extra", "orders.*.extra", "x"),
    ("orders.*.order_id", "orders.*", "#other"),
    ("users.*.user_id", "users.*", "other"),
    ("orders.*.user_id", "orders.*.user_id", "nobody"),
    ("products.*.product_id", "products.*", "other"),
]


@pytest.mark.parametrize(("place", "field", "value"), BAD_SHOPS)
def test_what_is_wrong_in_a_file_is_named(tmp_path: Path, place: str, field: str, value: JsonValue) -> None:
    data = shop_as_json()
    collection, _, name = place.split(".")
    key = next(iter(data[collection]))
    data[collection][key][name] = value
    with pytest.raises(BadInput) as error:
        from_file(tmp_path, data)
    assert error.value.field == field.replace("*", key)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"products": {}, "users": {}}', "[" * 100_000, '{"orders": NaN}'])
def test_a_file_that_is_no_shop_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "db.json"
    path.write_text(text)
    with pytest.raises(BadInput):
        template("file", {"path": str(path)})


def test_a_file_that_is_not_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "db.json"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(BadInput):
        template("file", {"path": str(path)})


@pytest.mark.parametrize(
    ("value", "cents"), [(1, "1.00"), (0.1 + 0.2, "0.30"), (2.675, "2.68"), (0.125, "0.12"), (-16.63, "-16.63")]
)
def test_money_is_exact_cents(value: float, cents: str) -> None:
    assert to_cents(value) == Decimal(cents)
    assert str(to_cents(value)) == cents


@pytest.mark.parametrize("value", [True, "1.00", None, float("nan"), float("inf"), -1e12])
def test_what_is_no_amount_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="an amount of money is"):
        to_cents(value)
