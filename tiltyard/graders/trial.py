"""One trial as graders read it: the agent's calls in order, each joined with the world's record of it."""

from collections.abc import Mapping
from dataclasses import dataclass
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
    ``unknown`` is a call without any outcome. ``effect`` says whether it changed the world.
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

    @property
    def operation_id(self) -> str | None:
        value = self.arguments.get(OPERATION_ID)
        return value if isinstance(value, str) else None

    @property
    def place(self) -> str:
        return f"turn {self.turn}, call {self.index}"


def agents_place(delivery_id: str) -> tuple[int, int] | None:
    """(turn, call) of an agent's delivery; ``None`` for the harness's own, such as the settling wait."""
    parts = delivery_id.rsplit("/", 2)[1:]
    if len(parts) == 2 and all(part.isascii() and part.isdigit() and len(part) < 10 for part in parts):
        return int(parts[0]), int(parts[1])
    return None


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
    def deliveries(self) -> Mapping[tuple[int, int], DeliveryRecord]:
        """The agent's deliveries by (turn, call); the harness's own do not count as the agent's."""
        places = ((agents_place(record.delivery_id), record) for record in self.facts.deliveries)
        return {place: record for place, record in places if place is not None}

    @cached_property
    def calls(self) -> tuple[AgentCall, ...]:
        return tuple(
            _joined(turn, index, call, self.deliveries.get((turn.turn, index)))
            for turn in self.turns
            for index, call in enumerate(turn.decision.calls)
        )

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
