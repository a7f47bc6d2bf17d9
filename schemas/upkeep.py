"""What the janitor looks for and does."""

from pydantic import Field

from schemas.base import Model
from schemas.episode import EpisodeSpec
from schemas.sandbox import SandboxRecord, SandboxRef
from schemas.slice import Ending, LeaseRef
from schemas.start import SandboxPlace, Tuning
from schemas.upgrade import Elsewhere, Stranded


class UpkeepOrder(Model):
    """``stuck_attempts``: a workflow whose task failed this often in a row is terminated first.

    ``grace_s``: a planned trial without a workflow is missing only after this time. ``stranded_s``: an episode is
    terminated that has waited so long for a worker of its version. ``interval_s``: between two passes.
    """

    tuning: Tuning = Tuning()
    stuck_attempts: int = Field(default=20, ge=2)
    grace_s: float = Field(default=60, ge=0)
    stranded_s: float = Field(default=86_400, ge=0)
    interval_s: float = Field(default=0, ge=0)


class Hosted(Model):
    """A sandbox that a host has, whose workflow is closed or gone, or does not go on."""

    host: str
    record: SandboxRecord


class HostLook(Model):
    """What a look at the sandboxes of one host came to.

    ``seen`` says whether it could be looked at. ``discarded`` were sandboxes whose episodes went on without them,
    ``swept`` were things that belonged to none.
    """

    seen: bool = True
    unowned: tuple[Hosted, ...] = ()
    discarded: int = 0
    swept: int = 0
    problems: tuple[str, ...] = ()


class InspectOrder(Model):
    """What the hosts were found to have. ``all_seen``: each that is not lost has been looked at."""

    order: UpkeepOrder
    unowned: tuple[Hosted, ...] = ()
    all_seen: bool = True


class Discard(Model):
    """End these sandboxes, which one host has."""

    sandboxes: tuple[SandboxRef, ...]


class Discarded(Model):
    """How many were ended, and why not all."""

    discarded: int = 0
    problems: tuple[str, ...] = ()


class Abandoned(Model):
    """An episode whose workflow is closed or gone while a lease or its outcome is open.

    ``never_ran``: no workflow of it is known; it may still be about to start.
    """

    spec: EpisodeSpec
    lease: LeaseRef | None
    ending: Ending
    tuning: Tuning
    never_ran: bool = False
    place: SandboxPlace = SandboxPlace()


class UpkeepReport(Model):
    """What one pass found; ``problems`` are why it did not do all: services that failed it.

    ``discard`` are sandboxes of workflows that are closed or gone, which nobody collects. ``elsewhere`` are
    episodes of a version of the workflows' code that no worker has, as many as one pass deals with.
    """

    abandoned: tuple[Abandoned, ...] = ()
    terminated: tuple[str, ...] = ()
    discard: tuple[Hosted, ...] = ()
    elsewhere: tuple[Elsewhere, ...] = ()
    problems: tuple[str, ...] = ()


class UpkeepSummary(Model):
    """What one pass started and ended.

    ``discarded`` sandboxes had no workflow any more, or one that went on without them; ``swept`` were things that
    belonged to no sandbox. What ``lost_hosts`` have is ended when they come back. Of episodes whose version has no
    worker, ``moved`` go on with ours and ``stranded`` cannot. ``problems`` are why it did not do all. ``at_s`` is
    when the pass ended, since the epoch.
    """

    reclaimed: tuple[str, ...] = ()
    terminated: tuple[str, ...] = ()
    discarded: int = 0
    swept: int = 0
    lost_hosts: tuple[str, ...] = ()
    moved: tuple[str, ...] = ()
    stranded: tuple[Stranded, ...] = ()
    problems: tuple[str, ...] = ()
    at_s: float = 0
