"""Money: exact cents inside, JSON numbers with at most two decimals at the border.

Sums are taken of decimals, so that no binary noise (0.1 + 0.2) arises on any machine.
"""

from decimal import Decimal
from typing import Annotated

from pydantic import BeforeValidator, Field, PlainSerializer

CENT = Decimal("0.01")
NOTHING = Decimal("0.00")
LIMIT = Decimal(10**12)
"""Far below where a double, and so a JSON number, loses cents."""


def to_cents(value: object) -> Decimal:
    """A number as exact cents, halves to the even cent. Raises ``ValueError`` for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise ValueError("an amount of money is a number")
    amount = Decimal(str(value))
    if not amount.is_finite() or abs(amount) >= LIMIT:
        raise ValueError(f"an amount of money is a number below {LIMIT}")
    return amount.quantize(CENT)


Money = Annotated[Decimal, BeforeValidator(to_cents), PlainSerializer(float, return_type=float)]
"""US dollars; negative where a customer gets money back."""

Amount = Annotated[Money, Field(ge=0)]
"""US dollars, never negative."""
