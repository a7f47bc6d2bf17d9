"""The tax of one line."""

RATES = {"standard": 21, "reduced": 9, "none": 0}
"""Per cent."""


def tax_cents(net_cents, rate):
    """The tax on ``net_cents`` in whole cents. Raises ``KeyError`` for an unknown rate."""
    hundredths = net_cents * RATES[rate]
    rounded = (abs(hundredths) + 50) // 100
    return rounded if hundredths >= 0 else -rounded
