"""The phases of an episode, and what those of its end take."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

PHASES: Mapping[str, tuple[str, ...]] = {
    "lease": (),
    "provision": (),
    "turns": ("lease", "provision"),
    "settle": ("turns",),
    "seal": ("settle",),
    "drain": ("seal",),
    "collect": ("drain",),
    "grade": ("collect",),
    "recycle": ("collect",),
}
"""Every phase, and what it waits for."""


class PhaseClock:
    """Adds up real seconds by phase. What world and sandbox each take of a phase counts together."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._seconds: dict[str, float] = {}

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """The block belongs to this phase, also where it fails."""
        began = self._now()
        try:
            yield
        finally:
            self._seconds[name] = self._seconds.get(name, 0.0) + self._now() - began

    @property
    def timings(self) -> dict[str, float]:
        """To the millisecond: they go into workflow history."""
        return {name: round(seconds, 3) for name, seconds in self._seconds.items()}
