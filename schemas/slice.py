"""A slice: one activity that loops turns for about two seconds."""

from typing import Literal

from pydantic import Field

from schemas.base import Model
from schemas.episode import End, EpisodeSpec
from schemas.sandbox import SandboxRef

MAX_REASON = 500
"""Characters of a reason or question that go into workflow history; the whole is in the journal (I10)."""


class LeaseRef(Model):
    """As much of a lease as history needs."""

    namespace: str
    generation: int


class CallRef(Model):
    """One call of one turn; the question of a turn that asks counts as its call 0."""

    turn: int
    call: int


class Restored(Model):
    """A sandbox was lost and made anew. ``from_turn`` is the turn whose files it has, ``None`` for the task's own.

    ``open_turn`` was under way: what its commands did is unknown, and none of them is run again. ``turns`` were
    journalled at the loss: whoever is asked for a later one has been told. ``out_of_memory`` is why it was lost.
    ``given_up``: it was not lost, but given up while the episode waited. ``forked``: it is the first one of a fork,
    which could not take over what ``missing`` names.
    """

    from_turn: int | None = None
    open_turn: int | None = None
    turns: int = 0
    out_of_memory: bool = False
    given_up: bool = False
    forked: bool = False
    missing: tuple[str, ...] = ()


class SliceRequest(Model):
    """The input of one slice.

    ``seconds`` is when it stops at a turn boundary, ``max_turns`` how many turns it may add, ``wall_left_s`` what
    is left of the wall-time budget. ``noticed`` says that the policy has been told that the wall time ends.
    ``waited`` is the real-time wait that is over, or the question: ``answer`` is what that was answered (``None``
    with ``answered``: nobody did). ``sandbox`` is where commands run; ``restored`` says that it is a new one, made
    from the last checkpoint, of which the policy is told. ``sandbox_lost``: it is known to be lost, after
    ``losses`` others. ``host`` has the sandbox, and no other one may run the slice.
    """

    spec: EpisodeSpec
    lease: LeaseRef
    run_id: str
    slice_no: int
    seconds: float = Field(gt=0)
    max_turns: int | None = Field(default=None, ge=1)
    wall_left_s: float
    noticed: bool = False
    answered: bool = False
    answer: str | None = None
    waited: CallRef | None = None
    sandbox: SandboxRef | None = None
    sandbox_lost: bool = False
    losses: int = 0
    host: str = ""
    restored: Restored | None = None


class Ending(Model):
    """How the turns ended, and why in one line."""

    end: End
    reason: str = Field(default="", max_length=MAX_REASON)

    @classmethod
    def of(cls, end: End, reason: str = "") -> "Ending":
        return cls(end=end, reason=reason[:MAX_REASON])

    @property
    def settles(self) -> bool:
        """Whether background work is given its time: not where nobody waits for the end."""
        return self.end not in (End.CANCELLED, End.TERMINATED)


class SliceReport(Model):
    """What a slice tells the workflow: only what the workflow decides by."""

    turns: int
    reason: Literal["time", "wait", "question", "end", "lost"]
    used_s: float = Field(default=0, description="of the wall-time budget; to the millisecond")
    ending: Ending | None = None
    noticed: bool = False
    wait_s: int = 0
    waiting_for: CallRef | None = None
    question: str = ""
    open_turn: int | None = Field(default=None, description="the turn that was under way when the sandbox was lost")
    out_of_memory: bool = Field(default=False, description="why the sandbox was lost")
    may_give_up: bool = Field(default=False, description="the sandbox, while the episode waits")


class CloseRequest(Model):
    """Settle, seal, drain and collect one lease. ``settle`` is false for what nobody waits for.

    ``earlier`` names what the incarnations before ``sandbox`` have said. ``given_up``: ``sandbox`` is the last of
    them, and there is none now. ``host`` has it, and no other one may close it.
    """

    spec: EpisodeSpec
    lease: LeaseRef
    ending: Ending
    settle: bool = True
    sandbox: SandboxRef | None = None
    earlier: str = ""
    given_up: bool = False
    host: str = ""


class GiveUpRequest(Model):
    """Give the sandbox up, which ``host`` has, while the episode waits: as the slice ``slice_no`` of this run."""

    spec: EpisodeSpec
    lease: LeaseRef
    sandbox: SandboxRef
    run_id: str
    slice_no: int
    earlier: str = ""
    host: str = ""


class GivenUp(Model):
    """Nothing runs in the sandbox any more. ``from_turn`` is the turn whose files were kept (``None``: the task's
    own), of ``turns`` journalled ones. ``earlier`` names what it and those before it have said."""

    from_turn: int | None
    turns: int
    earlier: str


class CloseReport(Model):
    """``trace`` is the object that holds all facts; ``unknown`` counts the world's outcomes that cannot be told.

    ``timings`` are wall seconds of this attempt at settling, sealing, draining and collecting, to the millisecond.
    """

    trace: str
    unknown: int = 0
    timings: dict[str, float] = {}


class GradeRequest(Model):
    """Grade an episode from its trace and record the outcome. Without a lease there is no trace."""

    spec: EpisodeSpec
    ending: Ending
    trace: str | None = None
    timings: dict[str, float] = {}


class ReleaseRequest(Model):
    """Give a drained namespace back, or quarantine it with a reason. The sandbox, if there is one, is discarded by
    its ``host``."""

    lease: LeaseRef | None = None
    sandbox: SandboxRef | None = None
    quarantine: str = ""
    host: str = ""


class Summary(Model):
    """The result of the episode workflow; everything else is in the records."""

    episode_id: str
    end: End
    total: float
