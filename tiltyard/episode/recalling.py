"""What is remembered of turns that a policy is no longer shown, and told of them in a summary.

Part of the rule ``recent-1``, which never changes: whatever is to be told otherwise is another rule.
"""

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from schemas.base import Model, canonical
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

EntryT = TypeVar("EntryT", bound=Model)


@dataclass
class _Noted:
    """A call and what is known of it. ``told``: an ``ok`` has come; a reply lost after it opens nothing again."""

    turn: int
    call: Call
    observation: Observation
    lost: bool = False
    told: bool = False

    @property
    def in_doubt(self) -> bool:
        return self.lost and not self.told

    def learn(self, observation: Observation) -> None:
        self.told = self.told or observation.status == "ok"
        self.lost = self.lost or _leaves_open(observation)
        if observation.status == "ok" or not self.told:
            self.observation = observation


@dataclass
class Memory:
    """Notes of turns, taken in order. ``room`` is what the entries of a summary may take, in bytes."""

    room: int
    _operations: dict[str, _Noted] = field(default_factory=dict)
    _calls: dict[bytes, _Noted] = field(default_factory=dict)
    _replies: deque[Replied] = field(default_factory=lambda: deque(maxlen=REMEMBERED))
    _counts: dict[str, Counter[tuple[str, str]]] = field(default_factory=dict)
    _forgotten: int = 0

    def absorb(self, number: int, turn: Turn) -> None:
        """Take note of the turn ``number``."""
        part = self.room // PARTS
        shown = tuple(clip(one, part) for one in turn.observations)
        if turn.decision.ask is not None and shown:
            self._forgotten += len(self._replies) == REMEMBERED
            question = head(turn.decision.ask, part)
            self._replies.append(Replied(turn=number, question=question, observation=shown[0]))
        for call, observation in zip(turn.decision.calls, shown, strict=False):
            self._count(call.tool, observation)
            self._note(_Noted(number, call, observation, _leaves_open(observation), observation.status == "ok"))

    def _count(self, tool: str, observation: Observation) -> None:
        if tool in self._counts or len(self._counts) < REMEMBERED:
            self._counts.setdefault(tool, Counter())[(observation.status, observation.code)] += 1
        else:
            self._forgotten += 1

    def _note(self, noted: _Noted) -> None:
        operation_id = noted.call.arguments.get(OPERATION_ID)
        if isinstance(operation_id, str):
            self._forgotten += _moved_to_end(self._operations, operation_id, _merged(self._operations, noted))
        else:
            self._forgotten += _moved_to_end(self._calls, canonical([noted.call.tool, noted.call.arguments]), noted)

    def summary(self, rule: str, turns: int, goal: str, budgets: Budgets) -> HistorySummary:
        """What is told of the ``turns`` that were absorbed. Each kind takes half of the room that those before it
        have left, the last one all of it: the newest of it that fit."""
        every = (*self._operations.values(), *self._calls.values())
        kinds: tuple[tuple[str, Iterable[ToolCount | Recalled | Replied]], ...] = (
            ("in_doubt", self._told(sorted((one for one in every if one.in_doubt), key=_turn))),
            ("answers", reversed(self._replies)),
            ("calls", self._counted()),
            ("operations", self._told([one for one in self._operations.values() if not one.in_doubt])),
            ("known", self._told([one for one in self._calls.values() if not one.in_doubt])),
        )
        room, shown = self.room, 0
        told: dict[str, tuple[object, ...]] = {}
        for place, (name, entries) in enumerate(kinds):
            fitting, taken = _fitting(entries, room if place == len(kinds) - 1 else room // 2)
            room, shown = room - taken, shown + len(fitting)
            told[name] = tuple(fitting) if name == "calls" else tuple(reversed(fitting))
        left_out = self._forgotten + len(every) + len(self._replies) + len(self._counts) - shown
        fixed = {"rule": rule, "turns": turns, "goal": goal, "budgets": budgets, "left_out": left_out}
        return HistorySummary.model_validate({**fixed, **told})

    def _told(self, noted: Sequence[_Noted]) -> Iterator[Recalled]:
        """As entries of a summary, the newest first, each made when it is asked for."""
        for one in reversed(noted):
            arguments, cut_bytes = clipped(one.call.arguments, 2 * self.room // PARTS)
            yield Recalled(
                turn=one.turn,
                tool=one.call.tool,
                arguments=arguments,
                cut_bytes=cut_bytes,
                observation=one.observation,
            )

    def _counted(self) -> Iterator[ToolCount]:
        """The tools that were called most often first, equal ones by name."""
        for tool, outcomes in sorted(self._counts.items(), key=lambda one: (-one[1].total(), one[0])):
            errors = sorted((-n, code) for (status, code), n in outcomes.items() if status == "error")
            yield ToolCount(
                tool=tool,
                ok=_sum(outcomes, "ok"),
                timeouts=_sum(outcomes, "timeout"),
                errors={code: -n for n, code in errors[:CODES]},
            )


def _sum(outcomes: Counter[tuple[str, str]], wanted: str) -> int:
    return sum(n for (status, _), n in outcomes.items() if status == wanted)


def _leaves_open(observation: Observation) -> bool:
    return observation.status == "timeout" or observation.code == SANDBOX_LOST


def _merged(known: dict[str, _Noted], noted: _Noted) -> _Noted:
    """What is known of an operation, with a further answer. The call is the first that says more than the id."""
    before = known.get(str(noted.call.arguments[OPERATION_ID]))
    if before is None:
        return noted
    if len(before.call.arguments) == 1 < len(noted.call.arguments):
        before.turn, before.call = noted.turn, noted.call
    before.learn(noted.observation)
    return before


KeyT = TypeVar("KeyT")


def _moved_to_end(known: dict[KeyT, _Noted], key: KeyT, noted: _Noted) -> bool:
    """Put it last; whether the oldest was forgotten for it, one that is not in doubt if there is any."""
    known.pop(key, None)
    known[key] = noted
    if len(known) <= REMEMBERED:
        return False
    del known[next((one for one, what in known.items() if not what.in_doubt), next(iter(known)))]
    return True


def _turn(noted: _Noted) -> int:
    return noted.turn


def _fitting(entries: Iterable[EntryT], room: int) -> tuple[list[EntryT], int]:
    """(the first of the entries that fit, bytes that they take)."""
    fitting: list[EntryT] = []
    taken = 0
    for entry in entries:
        size = len(canonical(entry)) + 1
        if taken + size > room:
            break
        fitting.append(entry)
        taken += size
    return fitting, taken
