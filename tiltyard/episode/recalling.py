"""What is remembered of turns that a policy is no longer shown, and told of them in a summary.

Part of the rule ``recent-1``, which never changes: whatever is to be told otherwise is another rule.
"""

from collections import Counter, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Generic, TypeVar

from schemas.base import Model, canonical, digest_of
from schemas.decision import Call
from schemas.observation import Observation
from schemas.view import Budgets, HistorySummary, Recalled, Replied, ToolCount, Turn
from tiltyard.episode.clipping import clip, clipped, head
from tiltyard.episode.gateway import SANDBOX_LOST
from tiltyard.worlds.arguments import OPERATION_ID

REMEMBERED = 200
"""Entries of each kind that are kept: the newest. So memory does not grow with the turns."""

PARTS = 16
"""A content, a message, an answer may take this part of the room, and a call's arguments twice as much."""

CODES = 5
"""Errors of one tool that are told apart: the most frequent."""

EntryT = TypeVar("EntryT", bound=Model, covariant=True)


@dataclass(frozen=True)
class _Noted(Generic[EntryT]):
    """An entry as a summary tells it, with nothing that no summary will tell: decisions may be large."""

    entry: EntryT

    @cached_property
    def bytes(self) -> int:
        """What it takes, as JSON."""
        return len(canonical(self.entry))


@dataclass(frozen=True)
class _NotedCall(_Noted[Recalled]):
    """A call and what is known of it. ``told``: an ``ok`` has come; a reply lost after it opens nothing again.
    ``bare``: it had no argument but an operation's id."""

    bare: bool
    lost: bool
    told: bool

    @property
    def in_doubt(self) -> bool:
        return self.lost and not self.told

    def then(self, later: "_NotedCall") -> "_NotedCall":
        """The same operation after a later answer. The call is the first that says more than the id."""
        told = self.told or later.told
        call = later.entry if self.bare and not later.bare else self.entry
        observation = later.entry.observation if later.told or not told else self.entry.observation
        entry = call.model_copy(update={"observation": observation})
        return replace(self, entry=entry, bare=self.bare and later.bare, lost=self.lost or later.lost, told=told)


@dataclass
class Memory:
    """Notes of turns, taken in order. ``room`` is what the entries of a summary may take, in bytes."""

    room: int
    _operations: dict[str, _NotedCall] = field(default_factory=dict)
    _calls: dict[str, _NotedCall] = field(default_factory=dict)
    _replies: deque[_Noted[Replied]] = field(default_factory=lambda: deque(maxlen=REMEMBERED))
    _counts: dict[str, Counter[tuple[str, str]]] = field(default_factory=dict)
    _counts_bytes: int = 0
    _forgotten: int = 0

    def absorb(self, number: int, turn: Turn) -> None:
        """Take note of the turn ``number``."""
        part = self.room // PARTS
        shown = tuple(clip(one, part) for one in turn.observations)
        if turn.decision.ask is not None and shown:
            self._forgotten += len(self._replies) == REMEMBERED
            question = head(turn.decision.ask, part)
            self._replies.append(_Noted(Replied(turn=number, question=question, observation=shown[0])))
        for call, observation in zip(turn.decision.calls, shown, strict=False):
            self._count(call.tool, observation)
            self._note(call, self._noted(number, call, observation))

    @property
    def bytes(self) -> int:
        """What all notes take, as JSON."""
        return self._counts_bytes + sum(one.bytes for one in (*self._every, *self._replies))

    @property
    def _every(self) -> tuple[_NotedCall, ...]:
        return *self._operations.values(), *self._calls.values()

    def _count(self, tool: str, observation: Observation) -> None:
        if tool not in self._counts and len(self._counts) == REMEMBERED:
            self._forgotten += 1
            return
        outcomes, outcome = self._counts.setdefault(tool, Counter()), (observation.status, observation.code)
        if outcome not in outcomes:
            self._counts_bytes += len(canonical([tool, outcome]))
        outcomes[outcome] += 1

    def _noted(self, number: int, call: Call, observation: Observation) -> _NotedCall:
        arguments, cut_bytes = clipped(call.arguments, 2 * self.room // PARTS)
        return _NotedCall(
            Recalled(
                turn=number, tool=call.tool, arguments=arguments, cut_bytes=cut_bytes, observation=observation
            ),
            bare=len(call.arguments) == 1,
            lost=_leaves_open(observation),
            told=observation.status == "ok",
        )

    def _note(self, call: Call, noted: _NotedCall) -> None:
        """Operations are told apart by their ids, other calls by what was called: both by digests, for either may
        be long."""
        operation_id = call.arguments.get(OPERATION_ID)
        if isinstance(operation_id, str):
            key = digest_of(operation_id)
            before = self._operations.get(key)
            noted = noted if before is None else before.then(noted)
            self._forgotten += _moved_to_end(self._operations, key, noted)
        else:
            self._forgotten += _moved_to_end(self._calls, digest_of([call.tool, call.arguments]), noted)

    def summary(self, rule: str, turns: int, goal: str, budgets: Budgets) -> HistorySummary:
        """What is told of the ``turns`` that were absorbed. Each kind takes half of the room that those before it
        have left, the last one all of it: the newest of it that fit."""
        every = self._every
        in_doubt = sorted((one for one in every if one.in_doubt), key=_turn)
        kinds: tuple[tuple[str, Iterable[_Noted[ToolCount | Recalled | Replied]]], ...] = (
            ("in_doubt", reversed(in_doubt)),
            ("answers", reversed(self._replies)),
            ("calls", self._counted()),
            ("operations", (one for one in reversed(self._operations.values()) if not one.in_doubt)),
            ("known", (one for one in reversed(self._calls.values()) if not one.in_doubt)),
        )
        room, shown = self.room, 0
        told: dict[str, tuple[object, ...]] = {}
        for place, (name, notes) in enumerate(kinds):
            fitting, taken = _fitting(notes, room if place == len(kinds) - 1 else room // 2)
            room, shown = room - taken, shown + len(fitting)
            told[name] = tuple(fitting) if name == "calls" else tuple(reversed(fitting))
        left_out = self._forgotten + len(every) + len(self._replies) + len(self._counts) - shown
        fixed = {"rule": rule, "turns": turns, "goal": goal, "budgets": budgets, "left_out": left_out}
        return HistorySummary.model_validate({**fixed, **told})

    def _counted(self) -> Iterator[_Noted[ToolCount]]:
        """The tools that were called most often first, equal ones by name."""
        for tool, outcomes in sorted(self._counts.items(), key=lambda one: (-one[1].total(), one[0])):
            errors = sorted((-n, code) for (status, code), n in outcomes.items() if status == "error")
            count = ToolCount(
                tool=tool,
                ok=_sum(outcomes, "ok"),
                timeouts=_sum(outcomes, "timeout"),
                errors={code: -n for n, code in errors[:CODES]},
            )
            yield _Noted(count)


def _sum(outcomes: Counter[tuple[str, str]], wanted: str) -> int:
    return sum(n for (status, _), n in outcomes.items() if status == wanted)


def _leaves_open(observation: Observation) -> bool:
    return observation.status == "timeout" or observation.code == SANDBOX_LOST


def _moved_to_end(known: dict[str, _NotedCall], key: str, noted: _NotedCall) -> bool:
    """Put it last; whether the oldest was forgotten for it, one that is not in doubt if there is any."""
    known.pop(key, None)
    known[key] = noted
    if len(known) <= REMEMBERED:
        return False
    del known[next((one for one, what in known.items() if not what.in_doubt), next(iter(known)))]
    return True


def _turn(noted: _NotedCall) -> int:
    return noted.entry.turn


def _fitting(notes: Iterable[_Noted[EntryT]], room: int) -> tuple[list[EntryT], int]:
    """(the first of the entries that fit, bytes that they take)."""
    fitting: list[EntryT] = []
    taken = 0
    for noted in notes:
        size = noted.bytes + 1
        if taken + size > room:
            break
        fitting.append(noted.entry)
        taken += size
    return fitting, taken
