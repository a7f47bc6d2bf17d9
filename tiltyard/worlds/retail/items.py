"""Picking lines of an order and the variants that replace them."""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from tiltyard.worlds.kit import Refused, State
from tiltyard.worlds.retail.entities import PRODUCTS, Order, OrderItem, Product, Variant
from tiltyard.worlds.retail.money import NOTHING


@dataclass(frozen=True)
class Swap:
    """One line of an order (``position`` in its items) and the variant that takes its place."""

    position: int
    old: OrderItem
    new: Variant

    @property
    def line(self) -> OrderItem:
        """The line after the swap: the product stays, everything else is the new variant's."""
        return self.old.model_copy(
            update={"item_id": self.new.item_id, "price": self.new.price, "options": self.new.options}
        )


def picked(order: Order, item_ids: Sequence[str]) -> tuple[int, ...]:
    """Positions of the lines meant by ``item_ids``, a line of its own for each.

    Raises ``Refused`` for no ids at all, and for an id that is asked for more often than the order holds it.
    """
    if not item_ids:
        raise Refused("item_ids: name at least one item", code="no_items")
    free = list(enumerate(order.items))
    positions = []
    for item_id in item_ids:
        line = next((line for line in free if line[1].item_id == item_id), None)
        if line is None:
            raise Refused(
                f"item_ids: {order.order_id} does not hold {item_id} as often as it is named",
                code="item_not_in_order",
            )
        free.remove(line)
        positions.append(line[0])
    return tuple(positions)


def swaps(state: State, order: Order, item_ids: Sequence[str], new_item_ids: Sequence[str]) -> tuple[Swap, ...]:
    """Each picked line with its new variant: of the same product, and available."""
    if len(item_ids) != len(new_item_ids):
        raise Refused(
            f"new_item_ids: {len(new_item_ids)} new items for {len(item_ids)} old ones; give one for each",
            code="unequal_lengths",
        )
    positions = picked(order, item_ids)
    return tuple(
        Swap(position, order.items[position], available_variant(state, order.items[position], new_item_id))
        for position, new_item_id in zip(positions, new_item_ids, strict=True)
    )


def available_variant(state: State, old: OrderItem, new_item_id: str) -> Variant:
    """The variant ``new_item_id`` of the old line's product. Raises ``Refused``."""
    product = state.get(Product, PRODUCTS, old.product_id)
    variant = product.variants.get(new_item_id)
    if variant is None:
        raise Refused(f"new_item_ids: {new_item_id} is not a variant of {product.name}", code="other_product")
    if not variant.available:
        raise Refused(f"new_item_ids: {new_item_id} is not available", code="not_available")
    return variant


def price_difference(chosen: Sequence[Swap]) -> Decimal:
    """What the new variants cost more than the lines that they replace; negative when they cost less."""
    return sum((swap.new.price - swap.old.price for swap in chosen), NOTHING)


def swapped(order: Order, chosen: Sequence[Swap]) -> tuple[OrderItem, ...]:
    """The order's lines after the swaps; lines keep their places."""
    new = {swap.position: swap.line for swap in chosen}
    return tuple(new.get(position, line) for position, line in enumerate(order.items))
