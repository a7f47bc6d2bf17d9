"""Choices that depend on nothing but a seed and a label: the same on every machine and Python version.

``random.Random`` promises equal sequences only for ``random()``; and one more choice in the middle would move
all that come after it. A hash per label has neither problem.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")

STRIDE = 7_368_787
"""Without a factor in common with 10, so that multiples of it modulo a power of 10 do not repeat."""


@dataclass(frozen=True)
class Draw:
    """Draws by label under one seed."""

    seed: int

    def number(self, below: int, *label: object) -> int:
        """A number from 0 to ``below`` - 1."""
        text = "/".join(str(part) for part in (self.seed, *label))
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8]) % below

    def choice(self, options: Sequence[T], *label: object) -> T:
        """One of ``options``."""
        return options[self.number(len(options), *label)]

    def some(self, options: Sequence[T], count: int, *label: object) -> tuple[T, ...]:
        """``count`` different places of ``options`` (all, if there are fewer), in drawn order."""
        order = sorted(range(len(options)), key=lambda at: (self.number(2**32, *label, at), at))
        return tuple(options[at] for at in order[:count])

    def serial(self, index: int, width: int, kind: str) -> str:
        """``width`` digits that differ for every ``index`` below 10**width of one ``kind``."""
        return f"{(self.number(10**width, kind) + index * STRIDE) % 10**width:0{width}}"
