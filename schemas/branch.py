"""What a fork begins with: an episode's state at a turn boundary."""

from schemas.base import Model
from schemas.journal import TurnRecord
from schemas.sandbox_facts import SandboxFacts
from schemas.world import DeliveryRecord, LedgerRow


class Past(Model):
    """What has happened in a namespace up to some moment: the state then is the template with the ledger's
    after-images over it, the engine's own rows (clock, jobs, receipts, counters) included.

    ``episode_id`` and ``generation`` are those that its delivery ids begin with; whoever takes the past over puts
    its own in their place.
    """

    episode_id: str
    generation: int
    template_digest: str
    deliveries: tuple[DeliveryRecord, ...] = ()
    ledger: tuple[LedgerRow, ...] = ()


class BranchPoint(Model):
    """The state of ``episode_id`` before its turn ``turn``: the ``turns`` before it, and what they had come to.

    The sandbox's files are those of the last checkpoint in ``turns``; the commands after it are run again. ``said``
    is what the sandboxes had said of the turns up to that checkpoint. ``lost`` are the parts that cannot be
    restored, each in a few words: processes that were alive.
    """

    episode_id: str
    turn: int
    turns: tuple[TurnRecord, ...]
    world: Past
    said: tuple[SandboxFacts, ...] = ()
    lost: tuple[str, ...] = ()


class Inherited(Model):
    """What the steps after a fork's lease are to know of its beginning.

    ``earlier`` names what its parent's sandboxes had said, in the fork's own ids; empty where that is nothing.
    ``checkpoint`` is that of ``saved_turn``, the last turn that it took over and that has one. ``lost`` are the
    parts that could not be restored.
    """

    earlier: str = ""
    checkpoint: str = ""
    saved_turn: int | None = None
    lost: tuple[str, ...] = ()
