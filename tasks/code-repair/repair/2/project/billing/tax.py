"""The tax of one line."""

RATES = {"standard": 21, "reduced": 9, "none": 0}
"""Per cent."""


def tax_cents(net_cents, rate):
    """The tax on ``net_cents`` in whole cents. Raises ``KeyError`` for an unknown rate."""
    return round(net_cents * RATES[rate] / 100)
