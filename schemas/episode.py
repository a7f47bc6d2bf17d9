"""An episode: what starts it, how it can end, and its result."""

from enum import StrEnum
from typing import Literal

from pydantic import Field

from schemas.base import JsonObject, Model
from schemas.grade import ContractResult, Measure, RiskEvent, RuleResult, SafetyFinding, Score
from schemas.sandbox import DriverName
from schemas.task import Limits
from schemas.world import DrainReport


class End(StrEnum):
    """How an episode ended. Exactly one is recorded for every planned trial (I6)."""

    SUBMITTED = "submitted"
    GAVE_UP = "gave_up"
    BUDGET_EXHAUSTED = "budget_exhausted"
    STALLED = "stalled"
    POLICY_ERROR = "policy_error"
    ENVIRONMENT_ERROR = "environment_error"
    CANCELLED = "cancelled"
    TERMINATED = "terminated"


class Validity(StrEnum):
    """Whether the outcome says something about the policy. Invalid trials stay in the denominator."""

    VALID = "valid"
    ENVIRONMENT = "environment"
    GRADER = "grader"
    MISSING = "missing"


class PolicySpec(Model):
    """Which policy decides: a shipped script by name, ``module:object`` or ``exec:COMMAND``.

    ``directory`` is where a child process starts; ``digest`` is taken of its source there.
    """

    target: str
    directory: str = ""
    digest: str = ""


class Origin(Model):
    """The episode that another one was made from.

    A ``replay`` makes its decisions again in a fresh environment; a ``probe`` makes some of them, to find the
    fewest that fail alike. A ``fork`` goes on from its state before ``turn``: that is the first turn that is its
    own. The replay of a fork begins where the fork did.
    """

    kind: Literal["replay", "fork", "probe"]
    episode_id: str
    turn: int = Field(default=0, ge=0)


class EpisodeSpec(Model):
    """The input of the episode workflow: references and limits, no content (I10).

    ``sandbox`` is the driver that makes the episode's sandbox, ``None`` for a task that needs none. ``origin`` is
    there where it was made from another one.
    """

    episode_id: str
    task_id: str
    task_digest: str
    world: str
    policy: PolicySpec
    seed: int = 0
    limits: Limits
    sandbox: DriverName | None = None
    origin: Origin | None = None

    @property
    def kept_turns(self) -> int:
        """Turns that a fork has of its parent, and the replay of a fork of that; 0 for whatever begins anew."""
        return self.origin.turn if self.origin is not None else 0


def workflow_id(episode_id: str) -> str:
    """The workflow that runs an episode."""
    return f"episode/{episode_id}"


class Counts(Model):
    """``effects`` are calls that changed the world; ``duplicates`` are effects equal in tool and arguments,
    the operation id aside, beyond the first: the agent's doing."""

    turns: int = 0
    tool_calls: int = 0
    effects: int = 0
    duplicates: int = 0
    late_writes: int = 0


class Digests(Model):
    """What must be equal before two results may be compared (I7, I12)."""

    trace: str = ""
    tools: str = ""
    graders: str = ""
    task: str = ""
    policy: str = ""
    template: str = ""


class EpisodeResult(Model):
    """One episode's outcome: what ``tiltyard run --json`` prints. ``timings`` are wall seconds by phase;
    what ran at the same time as another, or was part of one, counts in both (docs/episodes.md).

    ``sandbox`` is the driver that its commands ran under; ``unsafe-local`` isolates nothing. ``not_restored`` is
    what a fork could not take over from its parent. ``rules`` and ``measures`` are the facts behind P and E;
    ``None`` in an outcome of a time when they were not recorded.
    """

    episode_id: str
    task: str
    policy: str
    seed: int
    end: End
    validity: Validity
    reason: str = ""
    score: Score = Score()
    contracts: tuple[ContractResult, ...] = ()
    rules: tuple[RuleResult, ...] | None = None
    measures: tuple[Measure, ...] | None = None
    safety: tuple[SafetyFinding, ...] = ()
    risks: tuple[RiskEvent, ...] = ()
    drain: DrainReport = DrainReport()
    counts: Counts = Counts()
    digests: Digests = Digests()
    timings: dict[str, float] = Field(default_factory=dict)
    answer: JsonObject | None = None
    sandbox: DriverName | None = None
    origin: Origin | None = None
    not_restored: tuple[str, ...] = ()
    trace: str = Field(default="", description="object digest of the archived trace")
    exams: str = Field(default="", description="object digest of what the task's tests said")
