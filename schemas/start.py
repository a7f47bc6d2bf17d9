"""The input of the episode workflow."""

from typing import Literal

from pydantic import Field

from schemas.base import Model
from schemas.episode import EpisodeSpec
from schemas.host import Permit
from schemas.sandbox import SandboxRef
from schemas.slice import LeaseRef, Restored


class Tuning(Model):
    """How an episode is run; none of it changes what happens in it (I7).

    ``slice_s`` and ``slice_turns`` bound a slice, ``heartbeat_s`` is how soon a lost worker is noticed,
    ``slices_per_run`` when the workflow continues as new (also when the server suggests it).
    ``patience_s`` bounds each step around the turns; past it the janitor takes over. A host that has not taken up
    work within ``start_s`` is looked at; one that has been silent for ``outage_s`` is lost. An episode that waits
    longer than ``keep_sandbox_s`` gives its sandbox up.
    """

    slice_s: float = Field(default=2.0, gt=0)
    slice_turns: int | None = Field(default=None, ge=1)
    heartbeat_s: float = Field(default=5.0, gt=0)
    slices_per_run: int = Field(default=500, ge=1)
    patience_s: float = Field(default=86_400, gt=0)
    start_s: float = Field(default=30, gt=0)
    outage_s: float = Field(default=120, gt=0)
    keep_sandbox_s: float = Field(default=60, ge=0)


class LeaseOrder(Model):
    """What the lease activity is told: the episode, and the chain of runs that will own the lease."""

    spec: EpisodeSpec
    first_run_id: str


class ProvisionOrder(Model):
    """What the provision activity of ``host`` is told. ``generation`` finds the journal whose last checkpoint is
    restored; 0 is for a sandbox that begins with the task's files."""

    spec: EpisodeSpec
    first_run_id: str
    incarnation: int = 1
    generation: int = 0
    host: str = ""


class Provisioned(Model):
    """A sandbox, and the turn whose files it was given; ``None`` for the task's own. ``may_give_up``: the task lets
    it go while the episode waits. ``earlier`` and ``missing`` are a fork's: what its parent's sandboxes have said,
    and what could not be taken over of them."""

    sandbox: SandboxRef
    from_turn: int | None = None
    may_give_up: bool = False
    earlier: str = ""
    missing: tuple[str, ...] = ()

    def told(self, kept_turns: int) -> Restored | None:
        """What the policy of a fork that has ``kept_turns`` of its parent is to be told of it."""
        if not self.missing:
            return None
        return Restored(from_turn=self.from_turn, turns=kept_turns, forked=True, missing=self.missing)


class SandboxPlace(Model):
    """Where the sandbox of an episode is, as its workflow knows it.

    ``permit`` names the host that has it, or had; without one: that is lost too. ``state``: ``none`` before the
    first one, ``there``, ``given_up`` while the episode waits, or ``lost`` before that has been dealt with.
    ``losses`` counts those that were lost. ``may_give_up``: nothing that was done in it is known to it alone, and
    the task lets it go while the episode waits. ``restored`` is what the policy is to be told of it. ``earlier``
    names what those that were given up have said.
    """

    sandbox: SandboxRef | None = None
    permit: Permit = Permit()
    state: Literal["none", "there", "given_up", "lost"] = "none"
    losses: int = 0
    may_give_up: bool = False
    restored: Restored | None = None
    earlier: str = ""


class Carried(Model):
    """What a run hands to the next one of its chain."""

    lease: LeaseRef
    slice_no: int
    turns: int
    used_s: float = Field(description="of the wall-time budget")
    noticed: bool = Field(default=False, description="the policy has been told that the wall time ends")
    timings: dict[str, float] = {}
    place: SandboxPlace = SandboxPlace()


class EpisodeStart(Model):
    """One frozen model in. ``carried`` is empty in the first run."""

    spec: EpisodeSpec
    tuning: Tuning = Tuning()
    carried: Carried | None = None
