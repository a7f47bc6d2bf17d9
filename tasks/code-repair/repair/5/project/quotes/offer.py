"""Offers in several currencies."""

from quotes.convert import convert


def offer(cents, currency, others):
    """The price in its own currency and in each of the others."""
    return {one: convert(cents, currency, one) for one in (currency, *others)}
