"""Boxes."""

from warehouse.slips import slip_for


def labels(orders):
    """One label an order: how many lines its slip has, and the first of them."""
    slips = [slip_for(order) for order in orders]
    return [f"{len(slip)} lines, {slip[0]}" if slip else "empty" for slip in slips]
