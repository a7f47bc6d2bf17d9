"""A whole invoice."""

from billing.tax import tax_cents


def total_cents(lines):
    """What is to be paid for lines of (net cents, rate). Each line is rounded by itself."""
    return sum(net + tax_cents(net, rate) for net, rate in lines)
