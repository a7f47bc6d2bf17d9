"""One trial as graders read it: the agent's calls in order, each joined with the world's record of it."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

from schemas.base import JsonObject, JsonValue
from schemas.contract import TestsContract
from schemas.decision import Call
from schemas.episode import End
from schemas.evidence import SandboxEvidence
from schemas.exam import Exam
from schemas.journal import TurnRecord
from schemas.observation import Observation
from schemas.task import Task
from schemas.tool import ToolSpec
from schemas.world import DeliveryRecord, Facts

Status = Literal["ok", "error", "timeout", "unknown"]

OPERATION_ID = "operation_id"
"""The argument by which an agent names an effect of its own."""


@dataclass(frozen=True)
class AgentCall:
    """One call that the agent decided on.

    ``status``, ``code`` and ``content`` are what the agent was shown, by the world's record where there is one;
    ``unknown`` is a call without any outcome. ``effect`` says whether it changed the world. ``request`` numbers
    those that a program in the sandbox made for it, from 1: they follow the command that it descends from.
    """

    turn: int
    index: int
    tool: str
    arguments: JsonObject
    status: Status = "unknown"
    code: str = ""
    content: JsonValue = None
    effect: bool = False
    delivery_id: str = ""
    request: int = 0

    @property
    def operation_id(self) -> str | None:
        value = self.arguments.get(OPERATION_ID)
        return value if isinstance(value, str) else None

    @property
    def place(self) -> str:
        return told_place((self.turn, self.index, self.request))


Place = tuple[int, int, int]
"""(turn, call, request): where a call of the world was made. Request 0 is the agent's own call; others were made by
programs of its command."""

INSIDE = re.compile(r"(?P<command>.*)/http/(?P<request>[1-9][0-9]{0,8})", re.ASCII | re.DOTALL)
OWN = re.compile(r".*/(?P<turn>[0-9]{1,9})/(?P<call>[0-9]{1,9})", re.ASCII | re.DOTALL)


def agents_place(delivery_id: str) -> Place | None:
    """The place of an agent's delivery; ``None`` for the harness's own, such as the settling wait."""
    inside = INSIDE.fullmatch(delivery_id)
    own = OWN.fullmatch(inside["command"] if inside else delivery_id)
    return (int(own["turn"]), int(own["call"]), int(inside["request"]) if inside else 0) if own else None


def told_place(place: Place) -> str:
    """A place in words."""
    turn, call, request = place
    return f"turn {turn}, call {call}" + (f", request {request}" if request else "")


@dataclass(frozen=True)
class Trial:
    """The inputs of grading, and what several graders derive from them."""

    task: Task
    facts: Facts
    turns: tuple[TurnRecord, ...]
    end: End
    tools: tuple[ToolSpec, ...]
    sandbox: SandboxEvidence | None = None
    exams: tuple[Exam, ...] = ()

    @cached_property
    def deliveries(self) -> Mapping[Place, DeliveryRecord]:
        """The agent's deliveries by their places; the harness's own do not count as the agent's."""
        places = ((agents_place(record.delivery_id), record) for record in self.facts.deliveries)
        return {place: record for place, record in places if place is not None}

    @cached_property
    def calls(self) -> tuple[AgentCall, ...]:
        """What the agent decided on, each followed by what programs of it called."""
        own = {
            (turn.turn, index, 0): _joined(turn, index, call, self.deliveries.get((turn.turn, index, 0)))
            for turn in self.turns
            for index, call in enumerate(turn.decision.calls)
        }
        inside = {place: _inside(place, record) for place, record in self.deliveries.items() if place[2]}
        return tuple(call for _, call in sorted({**own, **inside}.items()))

    @cached_property
    def effects(self) -> tuple[AgentCall, ...]:
        return tuple(call for call in self.calls if call.effect)

    @cached_property
    def answer(self) -> JsonObject | None:
        """What was submitted, when the episode ended by it."""
        if self.end is not End.SUBMITTED or not self.turns:
            return None
        return self.turns[-1].decision.submit

    def exam_of(self, contract: TestsContract) -> Exam | None:
        """What the contract's tests said; ``None`` where nothing was left that could be examined."""
        place = self.task.contracts.index(contract)
        return next((exam for exam in self.exams if exam.contract == place), None)

    @cached_property
    def operation_ids(self) -> Mapping[str, frozenset[str]]:
        """Operation ids by the tool that the agent called under them."""
        found: dict[str, set[str]] = {}
        for call in self.calls:
            if call.operation_id is not None:
                found.setdefault(call.tool, set()).add(call.operation_id)
        return {tool: frozenset(ids) for tool, ids in found.items()}


def _inside(place: Place, record: DeliveryRecord) -> AgentCall:
    """A call that a program made. What it was answered is what the agent's program was shown."""
    turn, index, request = place
    made = AgentCall(turn, index, record.tool, record.arguments, delivery_id=record.delivery_id, request=request)
    if record.reply is None:
        return made
    shown = record.reply.shown
    return replace(made, status=shown.status, code=shown.code, content=shown.content, effect=record.reply.committed)


def _joined(turn: TurnRecord, index: int, call: Call, record: DeliveryRecord | None) -> AgentCall:
    made = AgentCall(turn.turn, index, call.tool, call.arguments)
    reply = record.reply if record else None
    if record is not None and reply is not None:
        shown: Observation | None = Observation(tool=call.tool, **dict(reply.shown))
    else:
        shown = _observed(turn, index)
    if shown is None:
        return made
    return AgentCall(
        *(turn.turn, index, call.tool, call.arguments, shown.status, shown.code, shown.content),
        effect=reply is not None and reply.committed,
        delivery_id=record.delivery_id if record else "",
    )


def _observed(turn: TurnRecord, index: int) -> Observation | None:
    observations = turn.observations or ()
    return observations[index] if index < len(observations) else None
