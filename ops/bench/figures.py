"""Figures: medians of what was measured, their ratios, and the targets that they are held to."""

import statistics
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Literal, Self

from pydantic import Field

from schemas.base import Model

Measure = Callable[[], Awaitable[float]]
"""Does something once; the seconds, or whatever else, that it took."""

Series = Mapping[str, Sequence[float]]
"""All that was measured, by what was done."""

Verdict = Literal["met", "missed", "too few", "skipped", ""]

MS = 1000.0


class Target(Model):
    """What a figure is to be: its ratio where it has one, else its median.

    ``judged_from`` is how many episodes or repetitions it takes to say so; with fewer there is no verdict.
    """

    least: float | None = None
    most: float | None = None
    judged_from: int = 0

    def holds(self, value: float) -> bool:
        """Whether the value is within the target, its ends included."""
        return (self.least is None or value >= self.least) and (self.most is None or value <= self.most)

    def __str__(self) -> str:
        bounds = (("≥", self.least), ("≤", self.most))
        return " ".join(f"{sign} {bound:g}" for sign, bound in bounds if bound is not None)


class Figure(Model):
    """One line of the benchmarks.

    ``median`` is of ``count`` measurements, in ``unit``; nine tenths of them are ``nine_tenths`` or better. Where
    each is of several episodes, ``episodes`` counts those. ``ratio`` is the median over that of ``against``.
    ``skipped`` says why there is nothing.
    """

    what: str
    unit: str = "ms"
    count: int = 0
    episodes: int = 0
    median: float | None = None
    nine_tenths: float | None = None
    ratio: float | None = None
    against: str = ""
    target: Target | None = None
    note: str = ""
    skipped: str = ""

    @property
    def verdict(self) -> Verdict:
        """Whether the target is met; empty without one."""
        if self.skipped:
            return "skipped"
        value = self.median if self.ratio is None else self.ratio
        if self.target is None or value is None:
            return ""
        if (self.episodes or self.count) < self.target.judged_from:
            return "too few"
        return "met" if self.target.holds(value) else "missed"

    @classmethod
    def of(
        cls,
        what: str,
        values: Sequence[float],
        *,
        scale: float = MS,
        unit: str = "ms",
        note: str = "",
        episodes: int = 0,
        more_is_better: bool = False,
    ) -> Self:
        """The figure of what was measured; ``scale`` turns it into ``unit``."""
        if not values:
            return cls(what=what, unit=unit, skipped="nothing was measured")
        return cls(
            what=what,
            unit=unit,
            count=len(values),
            episodes=episodes,
            median=statistics.median(values) * scale,
            nine_tenths=nine_tenths(values, more_is_better=more_is_better) * scale,
            note=note,
        )

    def over(self, base: "Figure", target: Target | None = None) -> "Figure":
        """The same figure with its ratio to another one."""
        if not self.median or not base.median:
            return self
        ratio = self.median / base.median
        return self.model_copy(update={"ratio": ratio, "against": base.what, "target": target})


class Report(Model):
    """What one subject came to."""

    subject: str
    figures: tuple[Figure, ...] = Field(min_length=1)


def nine_tenths(values: Sequence[float], *, more_is_better: bool = False) -> float:
    """The best of the values that nine tenths of them come up to: do not exceed, or reach where more is better."""
    ordered = sorted(values, reverse=more_is_better)
    return ordered[-(-len(ordered) * 9 // 10) - 1]


def timed(work: Callable[[], Awaitable[object]]) -> Measure:
    """Measures the seconds of an awaited piece of work."""

    async def measure() -> float:
        began = time.perf_counter()
        await work()
        return time.perf_counter() - began

    return measure


def timed_call(work: Callable[[], object]) -> Measure:
    """Measures the seconds of a call, for which everything else of this process waits."""

    async def measure() -> float:
        began = time.perf_counter()
        work()
        return time.perf_counter() - began

    return measure


async def interleaved(measures: Mapping[str, Measure], rounds: int) -> Series:
    """Measure each once a round, so that noise hits all of them alike. Each round begins with another one, and one
    round before the first is thrown away."""
    series: dict[str, list[float]] = {name: [] for name in measures}
    names = list(measures)
    for number in range(-1, rounds):
        first = number % len(names)
        for name in (*names[first:], *names[:first]):
            value = await measures[name]()
            if number >= 0:
                series[name].append(value)
    return series
