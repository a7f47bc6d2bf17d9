"""What the shop knows: products, users and orders. Optional fields that are absent are null."""

from typing import Annotated, Literal

from pydantic import Field

from tiltyard.worlds.kit import Entity
from tiltyard.worlds.retail.money import Amount, Money

PRODUCTS, USERS, ORDERS = "products", "users", "orders"

PENDING = "pending"
ITEM_MODIFIED = "pending (item modified)"
CANCELLED = "cancelled"
DELIVERED = "delivered"
RETURN_REQUESTED = "return requested"
EXCHANGE_REQUESTED = "exchange requested"


class Address(Entity):
    address1: str
    address2: str
    city: str
    state: str
    country: str
    zip: str


class Name(Entity):
    first_name: str
    last_name: str


class CreditCard(Entity):
    source: Literal["credit_card"] = "credit_card"
    id: str
    brand: str
    last_four: str


class PayPal(Entity):
    source: Literal["paypal"] = "paypal"
    id: str


class GiftCard(Entity):
    source: Literal["gift_card"] = "gift_card"
    id: str
    balance: Amount


PaymentMethod = Annotated[CreditCard | PayPal | GiftCard, Field(discriminator="source")]


class User(Entity):
    """A customer. ``payment_methods`` is keyed by the method's own id."""

    user_id: str
    name: Name
    address: Address
    email: str
    payment_methods: dict[str, PaymentMethod]
    orders: tuple[str, ...] = ()


class Variant(Entity):
    """One thing that can be bought: a product in one choice of its options."""

    item_id: str
    options: dict[str, str]
    available: bool
    price: Amount


class Product(Entity):
    """A type of product. ``variants`` is keyed by item id."""

    product_id: str
    name: str
    variants: dict[str, Variant]


class OrderItem(Entity):
    """One line of an order, at the price that was agreed. Two of the same item are two lines."""

    name: str
    product_id: str
    item_id: str
    price: Amount
    options: dict[str, str]


class Payment(Entity):
    transaction_type: Literal["payment", "refund"]
    amount: Amount
    payment_method_id: str


class Fulfillment(Entity):
    tracking_id: tuple[str, ...]
    item_ids: tuple[str, ...]


class Order(Entity):
    """An order. ``payment_history`` is in the order of booking; its first entry is the original payment."""

    order_id: str
    user_id: str
    address: Address
    items: tuple[OrderItem, ...]
    status: str
    fulfillments: tuple[Fulfillment, ...] = ()
    payment_history: Annotated[tuple[Payment, ...], Field(min_length=1)]
    cancel_reason: str | None = None
    exchange_items: tuple[str, ...] | None = None
    exchange_new_items: tuple[str, ...] | None = None
    exchange_payment_method_id: str | None = None
    exchange_price_difference: Money | None = None
    return_items: tuple[str, ...] | None = None
    return_payment_method_id: str | None = None
