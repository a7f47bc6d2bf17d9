"""Everything that a policy may decide by."""

from pydantic import JsonValue

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


class View(Model):
    """The argument of ``act``. It holds no id, host or wall clock, so equal episodes give equal views (I7).

    ``memo`` is what the policy's last decision asked to keep. ``notice`` is what the harness
    has to tell, once: that this is the last turn before a deadline, or that the sandbox was lost and made anew.
    """

    instruction: str
    tools: tuple[ToolSpec, ...]
    transcript: tuple[Turn, ...] = ()
    budgets: Budgets
    seed: int
    turn: int
    memo: JsonValue = None
    notice: str = ""
