"""The story of an episode: what its trace says, joined turn by turn, with the facts behind its score."""

from typing import Literal

from pydantic import JsonValue

from schemas.base import JsonObject, Model
from schemas.contract import ChangeKind
from schemas.episode import End, Validity
from schemas.evidence import Reading, SandboxEvidence
from schemas.grade import ContractResult, Measure, RuleResult, Score
from schemas.journal import TurnRecord
from schemas.observation import Observation
from schemas.replay import Difference, Differing
from schemas.task import Weights
from schemas.told import CommandRecord, ConnectionAttempt, MarkedRead, ProcessRecord
from schemas.world import DeliveryRecord, Job, LateWrite, LedgerRow, Receipt


class FieldChange(Model):
    """One field of a row. ``path`` is dotted; a value that is not there is ``None``."""

    path: str
    change: ChangeKind
    before: JsonValue = None
    after: JsonValue = None


class WorldChange(Model):
    """One change of a row. ``fields`` are those of an updated one that differ, ``body`` the whole of another.

    ``job`` names the deferred job that made it, with its kind in ``tool``; empty for one that the call itself made.
    """

    position: int
    job: str = ""
    tool: str
    world: str
    collection: str
    key: str
    change: ChangeKind
    fields: tuple[FieldChange, ...] = ()
    body: JsonValue = None
    at_s: int


class CallStory(Model):
    """One call and what came of it.

    ``shown`` is what the agent was shown, ``None`` where nobody knows; ``fault`` the planned fault that fired.
    ``effect`` says whether the world was changed, whatever was shown. ``reading`` is how a call is read that was in
    flight at the seal. ``changes`` are those that the call made, or that came due while it moved the clock;
    ``jobs`` are those that it scheduled, as they ended. ``inside`` are calls that programs of a command made.
    """

    call: int
    request: int = 0
    tool: str
    arguments: JsonObject
    delivery_id: str = ""
    shown: Observation | None = None
    fault: str = ""
    effect: bool = False
    reading: Reading | None = None
    receipt: Receipt | None = None
    changes: tuple[WorldChange, ...] = ()
    jobs: tuple[Job, ...] = ()
    inside: tuple["CallStory", ...] = ()


class TurnStory(Model):
    """One turn. ``answer`` is what a question was answered; ``now_s`` is the world's clock after the turn, ``None``
    while it has not ended. ``faults`` are the planned ones that fired; each stands with its call too, where that is
    known. ``kept``: a fork has it of its parent."""

    turn: int
    thought: str = ""
    calls: tuple[CallStory, ...] = ()
    ask: str | None = None
    answer: Observation | None = None
    submit: JsonObject | None = None
    give_up: str | None = None
    tokens: int = 0
    faults: tuple[str, ...] = ()
    now_s: int | None = None
    checkpoint: str = ""
    kept: bool = False


class PhaseStory(Model):
    """One phase, what it waited for, and its real seconds; ``None`` where they are not known."""

    name: str
    after: tuple[str, ...] = ()
    seconds: float | None = None
    note: str = ""


class ChangeVerdict(Model):
    """A net change of the world, and what the state contract took it for; ``None``: it was not expected.

    ``misfits`` are what keeps one that was not expected from being the expected one that it comes nearest to.
    ``missing``: there is no such change, nor one that comes near, and ``taken_for`` demands it; its ``key`` is
    ``*`` where any row will do.
    """

    contract: str
    world: str
    collection: str
    key: str
    change: ChangeKind
    taken_for: str | None = None
    misfits: tuple[str, ...] = ()
    missing: bool = False


class ExamStory(Model):
    """One run of a task's tests: how many of the expected ones passed."""

    contract: str
    tests: Literal["visible", "hidden"]
    expected: int
    passed: int
    ended_well: bool


class Points(Model):
    """The facts behind the score, beside its contracts, safety and risks.

    ``rules`` and ``measures`` are as recorded, or found again where an older outcome does not hold them.
    ``changes`` are found again. ``graders`` is the digest of those that were asked now, ``as_recorded`` whether it
    is that of the result. ``corrected``: tampering with a failed contract has left none of the score.
    """

    weights: Weights
    rules: tuple[RuleResult, ...] = ()
    measures: tuple[Measure, ...] = ()
    changes: tuple[ChangeVerdict, ...] = ()
    exams: tuple[ExamStory, ...] = ()
    corrected: bool = False
    graders: str = ""
    as_recorded: bool = True


class Story(Model):
    """One episode. Of one that runs there are only the ``turns`` so far, with what they were shown.

    ``later`` are changes that came after the last turn, such as those of the settling wait; ``jobs`` all deferred
    jobs as they ended; ``late`` what was refused after the seal. ``points`` are ``None`` where nothing was judged.
    """

    episode_id: str
    instruction: str
    turns: tuple[TurnStory, ...] = ()
    later: tuple[WorldChange, ...] = ()
    jobs: tuple[Job, ...] = ()
    late: tuple[LateWrite, ...] = ()
    sandbox: SandboxEvidence | None = None
    points: Points | None = None
    phases: tuple[PhaseStory, ...] = ()


class TurnInFull(Model):
    """One turn with all that is kept of it: ``record`` as journalled, every delivery and ledger row of its calls,
    those of programs in the sandbox included, and what its commands did there."""

    turn: TurnStory
    record: TurnRecord
    deliveries: tuple[DeliveryRecord, ...] = ()
    ledger: tuple[LedgerRow, ...] = ()
    receipts: tuple[Receipt, ...] = ()
    commands: tuple[CommandRecord, ...] = ()
    processes: tuple[ProcessRecord, ...] = ()
    marked_reads: tuple[MarkedRead, ...] = ()
    connections: tuple[ConnectionAttempt, ...] = ()


class ApartSide(Model):
    """One of two episodes that are laid side by side. ``turn`` is the one in which they part; ``None`` where it had
    ended before, or where they do not part."""

    episode_id: str
    policy: str
    seed: int
    turns: int
    end: End
    validity: Validity
    reason: str = ""
    score: Score
    contracts: tuple[ContractResult, ...] = ()
    turn: TurnStory | None = None


class Apart(Model):
    """Two episodes of one task, and the first turn in which they decide something else; ``None``: in no turn.

    What a policy thinks, notes or pays for a decision is no part of it. ``before`` is the first difference of any
    kind, where that is not the decision itself. ``same_task``: also the task's digest is the same; ``differs`` are
    the fields of the two tasks that are not.
    """

    task: str
    same_task: bool
    differs: tuple[Differing, ...] = ()
    left: ApartSide
    right: ApartSide
    turn: int | None = None
    before: Difference | None = None
