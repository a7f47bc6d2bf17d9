"""How many containers are to wait for sandboxes, from how many were asked for and how long one takes to make."""

from collections.abc import Sequence
from math import ceil

WINDOW_S = 60.0
"""What was asked for longer ago, in seconds, says nothing of what will be."""


def target(arrivals: Sequence[float], now: float, refill_s: float, most: int) -> int:
    """How many are to wait: as many as are asked for while one is made, and a reserve for those that come at once.

    ``arrivals`` are readings of a clock, in order; ``refill_s`` is what making one takes; never more than ``most``.
    """
    recent = [one for one in arrivals if one > now - WINDOW_S]
    return min(most, ceil(rate(recent, now, refill_s) * refill_s) + burst(recent, refill_s)) if recent else 0


def rate(recent: Sequence[float], now: float, refill_s: float) -> float:
    """Arrivals a second, over the time since the first of them."""
    return len(recent) / min(WINDOW_S, max(now - recent[0], refill_s))


def burst(recent: Sequence[float], within_s: float) -> int:
    """The most that came within so many seconds."""
    most = first = 0
    for last, came in enumerate(recent):
        while came - recent[first] > within_s:
            first += 1
        most = max(most, last - first + 1)
    return most
