"""Everything that a policy may decide by."""

from pydantic import Field, JsonValue

from schemas.base import Model
from schemas.decision import Decision
from schemas.observation import Observation
from schemas.tool import ToolSpec


class Turn(Model):
    """One finished turn of the transcript, its decision without the memo."""

    decision: Decision
    observations: tuple[Observation, ...] = ()


class Budgets(Model):
    """What is left; ``None`` is unlimited. Wall time is left out on purpose: a view holds no wall clock."""

    turns: int
    tool_calls: int
    tokens: int | None = None
    virtual_s: int | None = None


class ToolCount(Model):
    """How often a tool was called in the turns that are summarised, and what came of it; ``errors`` by code."""

    tool: str
    ok: int = 0
    timeouts: int = 0
    errors: dict[str, int] = Field(default_factory=dict)


class Recalled(Model):
    """One call, made in ``turn``, with the newest that is known of its outcome.

    Of long arguments and contents only the beginning is left, as text; ``cut_bytes`` counts what is missing of the
    arguments, the observation's ``truncated_bytes`` what is missing of it.
    """

    turn: int
    tool: str
    arguments: JsonValue
    cut_bytes: int = 0
    observation: Observation


class Replied(Model):
    """A question of ``turn``, and what a person answered."""

    turn: int
    question: str
    observation: Observation


class HistorySummary(Model):
    """What stands in a view for the turns 0 to ``turns - 1``. It stays as it is until the next one takes its place.

    ``rule`` made it. ``goal`` is the instruction again, ``budgets`` what was left when it was made.
    ``in_doubt`` are calls whose reply was lost and whose outcome nothing has told since; an operation is told by
    any ``ok`` under its operation id. ``operations`` are the others that were sent under an operation id: the
    call, and the newest answer under that id. ``known`` are the newest answers to all other calls. In each list the
    oldest comes first; ``left_out`` counts what had no room.
    """

    rule: str
    turns: int
    goal: str
    budgets: Budgets
    in_doubt: tuple[Recalled, ...] = ()
    answers: tuple[Replied, ...] = ()
    calls: tuple[ToolCount, ...] = ()
    operations: tuple[Recalled, ...] = ()
    known: tuple[Recalled, ...] = ()
    left_out: int = 0


class View(Model):
    """The argument of ``act``. It holds no id, host or wall clock, so equal episodes give equal views (I7).

    ``transcript`` are the turns so far; where the task limits it and they grew too long, the newest of them, after
    a ``summary`` of all before. ``memo`` is what the policy's last decision asked to keep. ``notice`` is what the
    harness has to tell, once: that this is the last turn before a deadline, or that the sandbox was lost and made
    anew.
    """

    instruction: str
    tools: tuple[ToolSpec, ...]
    summary: HistorySummary | None = None
    transcript: tuple[Turn, ...] = ()
    budgets: Budgets
    seed: int
    turn: int
    memo: JsonValue = None
    notice: str = ""
