"""The turns of an episode as its policy is shown them: all, or the newest after a summary of the others.

A function of the task and the turns alone: turns are added in order, and what is shown then does not depend on
slices, workers, retries or the time. So a replay and a fork see what the original saw (I7).
"""

from collections import deque
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Protocol

from schemas.base import canonical
from schemas.task import Task, ViewLimit
from schemas.view import Budgets, HistorySummary, Turn
from tiltyard.episode.recalling import Memory

SHARE = 3
"""A third of the limit is for the entries of a summary, and a third for turns that stay when one is made: so one
is not made at every turn."""


class History(Protocol):
    """``turns`` are shown as they are, after ``summary``."""

    turns: list[Turn]
    summary: HistorySummary | None

    def add(self, turn: Turn, left: Budgets) -> None:
        """A turn has ended, and ``left`` is what is left of the budgets."""
        ...

    def held_bytes(self) -> int:
        """What it holds, as JSON: what is shown, and what is remembered for the next summary."""
        ...


class Unabridged:
    """All turns."""

    def __init__(self) -> None:
        self.turns: list[Turn] = []
        self.summary: HistorySummary | None = None
        self._bytes = self._measured = 0

    def add(self, turn: Turn, left: Budgets) -> None:
        self.turns.append(turn)

    def held_bytes(self) -> int:
        self._bytes += sum(len(canonical(turn)) + 1 for turn in self.turns[self._measured :])
        self._measured = len(self.turns)
        return self._bytes


class Recent:
    """The rule ``recent-1``: when the history passes the limit, the newest turns that take a third of it stay, at
    least one; all others are summarised. A turn is never cut in two."""

    def __init__(self, rule: str, limit: ViewLimit, goal: str) -> None:
        self.turns: list[Turn] = []
        self.summary: HistorySummary | None = None
        self._rule, self._limit, self._goal = rule, limit.bytes, goal
        self._memory = Memory(self._limit // SHARE)
        self._sizes: deque[int] = deque()
        self._bytes = self._summarised = 0

    def add(self, turn: Turn, left: Budgets) -> None:
        self.turns.append(turn)
        self._sizes.append(len(canonical(turn)) + 1)
        self._bytes += self._sizes[-1]
        if self._bytes > self._limit and len(self.turns) > 1:
            self._summarise(left)

    def held_bytes(self) -> int:
        return self._bytes + self._memory.bytes

    def _summarise(self, left: Budgets) -> None:
        kept = sum(self._sizes)
        while len(self.turns) > 1 and kept > self._limit // SHARE:
            self._memory.absorb(self._summarised, self.turns.pop(0))
            kept -= self._sizes.popleft()
            self._summarised += 1
        self.summary = self._memory.summary(self._rule, self._summarised, self._goal, left)
        self._bytes = kept + len(canonical(self.summary))


RULES: Mapping[str, Callable[[str, ViewLimit, str], History]] = MappingProxyType({"recent-1": Recent})
"""By name and version, all that there ever were: an episode is replayed with the rule that it was played with."""


def history_of(task: Task) -> History:
    """The history of an episode of this task, before its first turn."""
    if task.view is None:
        return Unabridged()
    return RULES[task.view.rule](task.view.rule, task.view, task.instruction)
