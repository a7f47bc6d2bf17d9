"""A shop small enough to check by hand: one customer with every kind of payment method, and a stranger."""

import pytest
from pydantic import JsonValue

from schemas.base import JsonObject
from tiltyard.errors import Refused
from tiltyard.testing.dict_state import DictState, call
from tiltyard.worlds.kit import Template
from tiltyard.worlds.retail.entities import (
    Address,
    CreditCard,
    GiftCard,
    Name,
    Order,
    OrderItem,
    Payment,
    PayPal,
    Product,
    User,
    Variant,
)
from tiltyard.worlds.retail.money import to_cents
from tiltyard.worlds.retail.world import WORLD

HOME = Address(address1="1 Mill Lane", address2="", city="Boise", state="ID", country="USA", zip="83700")
AWAY: dict[str, JsonValue] = {
    "address1": "2 Quarry Hill",
    "address2": "Apt 3",
    "city": "Duluth",
    "state": "MN",
    "country": "USA",
    "zip": "55801",
}


def variant(item_id: str, price: float, *, available: bool = True) -> Variant:
    options = {"size": item_id.removeprefix("mug-")}
    return Variant(item_id=item_id, options=options, available=available, price=to_cents(price))


PRODUCTS = (
    Product(
        product_id="mugs",
        name="Travel Mug",
        variants={
            v.item_id: v
            for v in (
                variant("mug-s", 10.10),
                variant("mug-m", 20.20),
                variant("mug-l", 30.35),
                variant("mug-s2", 10.10),
                variant("mug-xl", 25.15),
                variant("mug-gone", 5.00, available=False),
            )
        },
    ),
    Product(product_id="lamps", name="Desk Lamp", variants={"lamp": variant("lamp", 50.00)}),
)
ANN = User(
    user_id="ann_lee_1",
    name=Name(first_name="Ann", last_name="Lee"),
    address=HOME,
    email="Ann.Lee@example.com",
    payment_methods={
        "card": CreditCard(id="card", brand="visa", last_four="1111"),
        "paypal": PayPal(id="paypal"),
        "gift": GiftCard(id="gift", balance=to_cents(15.05)),
        "big_gift": GiftCard(id="big_gift", balance=to_cents(100)),
    },
)
BOB = User(
    user_id="bob_ray_2",
    name=Name(first_name="Bob", last_name="Ray"),
    address=HOME.model_copy(update={"zip": "83701"}),
    email="bob@example.com",
    payment_methods={"bobs_card": CreditCard(id="bobs_card", brand="amex", last_four="2222")},
)


def booked(kind: str, amount: float, method_id: str) -> Payment:
    return Payment.model_validate({"transaction_type": kind, "amount": amount, "payment_method_id": method_id})


def line(item_id: str) -> OrderItem:
    product = next(product for product in PRODUCTS if item_id in product.variants)
    bought = product.variants[item_id]
    return OrderItem(
        name=product.name,
        product_id=product.product_id,
        item_id=item_id,
        price=bought.price,
        options=bought.options,
    )


def order(status: str, *items: str, history: tuple[Payment, ...] = (), paid_with: str = "card") -> Order:
    """Ann's order #1 of ``items``, paid in full with ``paid_with`` unless a history is given."""
    lines = tuple(line(item_id) for item_id in items or ("mug-s",))
    total = float(sum(one.price for one in lines))
    return Order(
        order_id="#1",
        user_id=ANN.user_id,
        address=HOME,
        items=lines,
        status=status,
        payment_history=history or (booked("payment", total, paid_with),),
    )


class Shop:
    """The shop with one order, and what a test asks of it."""

    def __init__(self, placed: Order | None = None) -> None:
        self.state = DictState(
            Template.of(
                {
                    "products": {product.product_id: product for product in PRODUCTS},
                    "users": {user.user_id: user for user in (ANN, BOB)},
                    "orders": {placed.order_id: placed} if placed else {},
                }
            )
        )

    def call(self, tool: str, **arguments: JsonValue) -> JsonValue:
        return call(WORLD, self.state, tool, arguments)

    def refused(self, tool: str, **arguments: JsonValue) -> str:
        """The code of the refusal; fails when the tool agrees, or refuses after it has saved something."""
        with pytest.raises(Refused) as refusal:
            self.call(tool, **arguments)
        assert self.state.saved == []
        assert refusal.value.message
        return refusal.value.code

    @property
    def order(self) -> JsonObject:
        body = self.state.load("orders", "#1")
        assert isinstance(body, dict)
        return body

    @property
    def user(self) -> User:
        return self.state.get(User, "users", ANN.user_id)

    def balance(self, card: str) -> float:
        held = self.user.payment_methods[card]
        assert isinstance(held, GiftCard)
        return float(held.balance)


def entry(kind: str, amount: float, method_id: str) -> JsonObject:
    """An entry of a payment history as JSON."""
    return {"transaction_type": kind, "amount": amount, "payment_method_id": method_id}
