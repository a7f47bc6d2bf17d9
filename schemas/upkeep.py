"""What the janitor looks for and does."""

from pydantic import Field

from schemas.base import Model
from schemas.episode import EpisodeSpec
from schemas.sandbox import SandboxRef
from schemas.slice import Ending, LeaseRef
from schemas.start import Tuning


class UpkeepOrder(Model):
    """``stuck_attempts``: a workflow whose task failed this often in a row is terminated first.

    ``grace_s``: a planned trial without a workflow is missing only after this time.
    """

    tuning: Tuning = Tuning()
    stuck_attempts: int = Field(default=20, ge=2)
    grace_s: float = Field(default=60, ge=0)


class Abandoned(Model):
    """An episode whose workflow is closed or gone while a lease or its outcome is open.

    ``never_ran``: no workflow of it is known; it may still be about to start.
    """

    spec: EpisodeSpec
    lease: LeaseRef | None
    ending: Ending
    tuning: Tuning
    never_ran: bool = False
    sandbox: SandboxRef | None = None


class UpkeepReport(Model):
    """What one pass found; ``problems`` are why it did not do all: services that failed it.

    ``discarded`` sandboxes were of workflows that are closed or gone; ``swept`` were things that belonged to none.
    """

    abandoned: tuple[Abandoned, ...] = ()
    terminated: tuple[str, ...] = ()
    discarded: int = 0
    swept: int = 0
    problems: tuple[str, ...] = ()


class UpkeepSummary(Model):
    """What one pass started and ended."""

    reclaimed: tuple[str, ...] = ()
    terminated: tuple[str, ...] = ()
    discarded: int = 0
    swept: int = 0
