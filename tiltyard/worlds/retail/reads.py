"""Tools that look things up and change nothing."""

import json
from typing import Annotated

from pydantic import Field

from tiltyard.worlds.kit import Refused, State, tool
from tiltyard.worlds.retail.arguments import ItemId, OrderId, ProductId, UserId, Zip
from tiltyard.worlds.retail.calculator import calculated
from tiltyard.worlds.retail.entities import ORDERS, PRODUCTS, USERS, Order, Product, User, Variant


@tool()
def find_user_id_by_email(
    state: State, email: Annotated[str, Field(description="The user's e-mail address; case does not matter.")]
) -> str:
    """Find a user's id by e-mail address."""
    wanted = email.casefold()
    for user in state.all(User, USERS):
        if user.email.casefold() == wanted:
            return user.user_id
    raise Refused("email: no user has this e-mail address", code="not_found")


@tool()
def find_user_id_by_name_zip(
    state: State,
    first_name: Annotated[str, Field(description="First name; case does not matter.")],
    last_name: Annotated[str, Field(description="Last name; case does not matter.")],
    zip: Zip,
) -> str:
    """Find a user's id by first name, last name and the zip code of their own address."""
    wanted = (first_name.casefold(), last_name.casefold(), zip)
    for user in state.all(User, USERS):
        if (user.name.first_name.casefold(), user.name.last_name.casefold(), user.address.zip) == wanted:
            return user.user_id
    raise Refused("first_name, last_name, zip: no user has this name at this zip code", code="not_found")


@tool()
def get_user_details(state: State, user_id: UserId) -> User:
    """A user's name, address, e-mail address, payment methods and order ids."""
    return state.get(User, USERS, user_id)


@tool()
def get_order_details(state: State, order_id: OrderId) -> Order:
    """An order's items, status, address, fulfillments, payments, and what was asked for since."""
    return state.get(Order, ORDERS, order_id)


@tool()
def get_product_details(state: State, product_id: ProductId) -> Product:
    """A type of product with all its variants: options, price, availability."""
    return state.get(Product, PRODUCTS, product_id)


@tool()
def get_item_details(state: State, item_id: ItemId) -> Variant:
    """One variant, looked for in all products: options, price, availability."""
    for product in state.all(Product, PRODUCTS):
        if item_id in product.variants:
            return product.variants[item_id]
    raise Refused(f"item_id: no product has a variant {item_id}", code="not_found")


@tool()
def list_all_product_types(state: State) -> str:
    """All types of product as JSON text: name to product id, sorted by name."""
    return json.dumps(
        {product.name: product.product_id for product in state.all(Product, PRODUCTS)}, sort_keys=True
    )


@tool()
def calculate(
    state: State,
    expression: Annotated[
        str,
        Field(description="Numbers with + - * / and brackets, such as '(12.5 + 3) * 2'; 200 characters at most."),
    ],
) -> str:
    """Work out an arithmetic expression; the result is rounded to two decimals."""
    return calculated(expression)


@tool()
def transfer_to_human_agents(
    state: State,
    summary: Annotated[str, Field(description="What the customer wants and why it is out of your reach.")],
) -> str:
    """Hand the customer over to a human agent. Only for what no other tool can do."""
    return "Transfer successful"
