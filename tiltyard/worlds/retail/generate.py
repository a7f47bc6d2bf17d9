"""A shop out of a seed: products with variants, customers with wallets, orders in every state."""

from dataclasses import dataclass
from decimal import Decimal
from itertools import product as combinations

from tiltyard.worlds.retail.catalogue import (
    CARD_BRANDS,
    CATALOGUE,
    CITIES,
    FIRST_NAMES,
    LAST_NAMES,
    STATUSES,
    STREETS,
    WALLETS,
    Article,
)
from tiltyard.worlds.retail.draw import Draw
from tiltyard.worlds.retail.entities import (
    Address,
    CreditCard,
    Fulfillment,
    GiftCard,
    Name,
    Order,
    OrderItem,
    Payment,
    PaymentMethod,
    PayPal,
    Product,
    User,
    Variant,
)
from tiltyard.worlds.retail.money import CENT, NOTHING

MOST_VARIANTS = 8
MOST_LINES = 4
MOST_METHODS = max(len(wallet) for wallet in WALLETS)
IN_STOCK_PERCENT = 75


@dataclass(frozen=True)
class Size:
    """How many of each to make."""

    users: int
    orders: int
    products: int


def generated(seed: int, size: Size) -> tuple[dict[str, Product], dict[str, User], dict[str, Order]]:
    """Products, users and orders by id. Equal arguments give equal shops."""
    draw = Draw(seed)
    products = [_product(draw, index, article) for index, article in enumerate(CATALOGUE[: size.products])]
    users = [_user(draw, index) for index in range(size.users)]
    orders = [_order(draw, index, users[index % size.users], products) for index in range(size.orders)]
    placed: dict[str, list[str]] = {user.user_id: [] for user in users}
    for order in orders:
        placed[order.user_id].append(order.order_id)
    users = [user.model_copy(update={"orders": tuple(placed[user.user_id])}) for user in users]
    return (
        {product.product_id: product for product in products},
        {user.user_id: user for user in users},
        {order.order_id: order for order in orders},
    )


def _product(draw: Draw, index: int, article: Article) -> Product:
    choices = list(combinations(*article.options.values()))
    picked = draw.some(choices, MOST_VARIANTS, "variants", index)
    variants = [
        _variant(draw, index * MOST_VARIANTS + at, article, dict(zip(article.options, values, strict=True)))
        for at, values in enumerate(picked)
    ]
    return Product(
        product_id=draw.serial(index, 10, "product"),
        name=article.name,
        variants={variant.item_id: variant for variant in variants},
    )


def _variant(draw: Draw, index: int, article: Article, options: dict[str, str]) -> Variant:
    percent = 85 + draw.number(31, "price", index)
    return Variant(
        item_id=draw.serial(index, 10, "item"),
        options=options,
        available=draw.number(100, "stock", index) < IN_STOCK_PERCENT,
        price=(Decimal(article.cents * percent) / 10_000).quantize(CENT),
    )


def _user(draw: Draw, index: int) -> User:
    first, last = draw.choice(FIRST_NAMES, "first", index), draw.choice(LAST_NAMES, "last", index)
    number = draw.serial(index, 4, "user")
    kinds = WALLETS[index % len(WALLETS)]
    methods = [_method(draw, kind, index * MOST_METHODS + at) for at, kind in enumerate(kinds)]
    return User(
        user_id=f"{first}_{last}_{number}".lower(),
        name=Name(first_name=first, last_name=last),
        address=_address(draw, index),
        email=f"{first}.{last}{number}@example.com".lower(),
        payment_methods={method.id: method for method in methods},
    )


def _method(draw: Draw, kind: str, index: int) -> PaymentMethod:
    method_id = f"{kind}_{draw.serial(index, 7, kind)}"
    if kind == "paypal":
        return PayPal(id=method_id)
    if kind == "gift_card":
        return GiftCard(id=method_id, balance=Decimal(draw.number(40_000, "balance", index)) * CENT)
    last_four = f"{draw.number(10_000, 'last four', index):04}"
    return CreditCard(id=method_id, brand=draw.choice(CARD_BRANDS, "brand", index), last_four=last_four)


def _address(draw: Draw, index: int) -> Address:
    city, state, zip_prefix = draw.choice(CITIES, "city", index)
    return Address(
        address1=f"{1 + draw.number(240, 'house', index)} {draw.choice(STREETS, 'street', index)}",
        address2=f"Apt {1 + draw.number(60, 'flat', index)}",
        city=city,
        state=state,
        country="USA",
        zip=f"{zip_prefix}{draw.number(100, 'zip', index):02}",
    )


def _order(draw: Draw, index: int, user: User, products: list[Product]) -> Order:
    status = STATUSES[index % len(STATUSES)]
    lines = _lines(draw, index, products)
    total = sum((line.price for line in lines), NOTHING)
    method_id = draw.choice(sorted(user.payment_methods), "paid with", index)
    booked = ("payment", "refund") if status == "cancelled" else ("payment",)
    shipped = (
        Fulfillment(
            tracking_id=(draw.serial(index, 12, "tracking"),), item_ids=tuple(line.item_id for line in lines)
        ),
    )
    return Order(
        order_id=f"#W{draw.serial(index, 7, 'order')}",
        user_id=user.user_id,
        address=user.address,
        items=lines,
        status=status,
        fulfillments=shipped if status in ("processed", "delivered") else (),
        payment_history=tuple(
            Payment.model_validate({"transaction_type": kind, "amount": total, "payment_method_id": method_id})
            for kind in booked
        ),
        cancel_reason="no longer needed" if status == "cancelled" else None,
    )


def _lines(draw: Draw, index: int, products: list[Product]) -> tuple[OrderItem, ...]:
    """One to four lines of different products; every fifth order holds its first item twice."""
    chosen = draw.some(products, 1 + draw.number(MOST_LINES, "lines", index), "products", index)
    lines = [_line(draw, index, product) for product in chosen]
    return tuple(lines[:1] + lines if index % 5 == 0 else lines)


def _line(draw: Draw, index: int, product: Product) -> OrderItem:
    variant = draw.choice(tuple(product.variants.values()), "bought", index, product.product_id)
    return OrderItem(
        name=product.name,
        product_id=product.product_id,
        item_id=variant.item_id,
        price=variant.price,
        options=variant.options,
    )
