"""Starting states of the shop: ``default`` is generated, ``file`` is read."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from schemas.base import JsonObject
from tiltyard.regular_files import open_regular
from tiltyard.single_keys import repeated
from tiltyard.worlds.kit import BadInput, Template
from tiltyard.worlds.retail.catalogue import CATALOGUE
from tiltyard.worlds.retail.entities import ORDERS, PRODUCTS, USERS, Order, Product, User
from tiltyard.worlds.retail.generate import Size, generated

TEMPLATES = ("default", "file")


class Params(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class DefaultParams(Params):
    """How large a generated shop is. Equal parameters give an equal shop, everywhere."""

    seed: int = Field(default=0, ge=0, lt=2**63)
    users: int = Field(default=20, ge=1, le=2000)
    orders: int = Field(default=40, ge=0, le=10_000)
    products: int = Field(default=12, ge=1, le=len(CATALOGUE))


class FileParams(Params):
    """``path`` is a JSON file with the objects ``products``, ``users`` and ``orders``, each keyed by id."""

    path: str = Field(min_length=1)


class Shop(BaseModel):
    """A whole shop, as a data file holds it."""

    model_config = ConfigDict(extra="forbid")

    products: dict[str, Product]
    users: dict[str, User]
    orders: dict[str, Order]


ModelT = TypeVar("ModelT", bound=BaseModel)


def template(name: str, params: JsonObject) -> Template:
    """The named starting state. Raises ``BadInput`` that names the parameter or the place in the file."""
    if name == "default":
        size = _params(DefaultParams, params)
        products, users, orders = generated(size.seed, Size(size.users, size.orders, size.products))
        return Template.of({PRODUCTS: products, USERS: users, ORDERS: orders})
    if name == "file":
        shop = loaded(Path(_params(FileParams, params).path))
        return Template.of({PRODUCTS: shop.products, USERS: shop.users, ORDERS: shop.orders})
    raise BadInput(
        f"retail has no template {name!r}", field="template.name", fix=f"use one of {', '.join(TEMPLATES)}"
    )


def loaded(path: Path) -> Shop:
    """The shop in a file. Raises ``BadInput`` when it is missing, not a shop, or contradicts itself."""
    try:
        with open_regular(path) as file:
            data = file.read()
        if twice := repeated(data):
            raise BadInput(f"{path}: {twice}", field="template.params.path", fix="mend the file")
        shop = Shop.model_validate_json(data)
    except OSError as error:
        raise BadInput(
            f"cannot read {path}: {error.strerror}", field="template.params.path", fix="name a shop's db.json"
        ) from error
    except ValidationError as error:
        where, why = _first(error)
        raise BadInput(f"{path}: {why}", field=where or "template.params.path", fix="mend the file") from error
    wrong = next(_contradictions(shop), None)
    if wrong:
        raise BadInput(f"{path}: {wrong[1]}", field=wrong[0], fix="mend the file")
    return shop


def _contradictions(shop: Shop) -> Iterator[tuple[str, str]]:
    """Places where a key is not the id that it stands for, or an id names nothing."""
    yield from _misnamed("products", {key: product.product_id for key, product in shop.products.items()})
    yield from _misnamed("users", {key: user.user_id for key, user in shop.users.items()})
    yield from _misnamed("orders", {key: order.order_id for key, order in shop.orders.items()})
    for key, product in shop.products.items():
        ids = {item_id: variant.item_id for item_id, variant in product.variants.items()}
        yield from _misnamed(f"products.{key}.variants", ids)
    for key, user in shop.users.items():
        methods = {method_id: method.id for method_id, method in user.payment_methods.items()}
        yield from _misnamed(f"users.{key}.payment_methods", methods)
    for key, order in shop.orders.items():
        if order.user_id not in shop.users:
            yield f"orders.{key}.user_id", f"there is no user {order.user_id}"


def _misnamed(where: str, ids: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    return ((f"{where}.{key}", f"the key is not its id {own!r}") for key, own in ids.items() if key != own)


def _params(model: type[ModelT], params: JsonObject) -> ModelT:
    try:
        return model.model_validate(params)
    except ValidationError as error:
        where, why = _first(error)
        known = ", ".join(model.model_fields)
        raise BadInput(why, field=f"template.params.{where}", fix=f"the parameters are {known}") from error


def _first(error: ValidationError) -> tuple[str, str]:
    first = error.errors(include_url=False)[0]
    return ".".join(str(part) for part in first["loc"]), first["msg"]
