"""What the domain needs of the outside. Drivers live in ``infra``; fakes in ``tiltyard.testing``."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Protocol

from schemas.branch import Past
from schemas.decision import Decision
from schemas.episode import EpisodeResult, EpisodeSpec
from schemas.host import Capacity, HostBeat, HostRecord
from schemas.journal import TurnRecord, Writer
from schemas.observation import Observation
from schemas.operation import SandboxReply, SandboxRequest
from schemas.recording import Recording
from schemas.sandbox import DriverName, SandboxOffer, SandboxOrder, SandboxRecord, SandboxRef, Snapshot, WorldAccess
from schemas.sandbox_facts import SandboxDrain, SandboxFacts
from schemas.status import SandboxHolding
from schemas.task import Task
from schemas.tool import ToolSpec
from schemas.view import View
from schemas.world import (
    DeliveryReply,
    DeliveryRequest,
    DrainReport,
    Facts,
    Lease,
    LeaseRequest,
    Owner,
)


class World(Protocol):
    """The way to a world. One attempt each: the caller resends, every call is idempotent.

    Each raises ``WorldUnreachable`` when no answer came; the outcome is then not known.
    """

    async def describe(self, world: str) -> tuple[ToolSpec, ...]:
        """The world's tools. Raises ``BadInput`` for an unknown world."""
        ...

    async def lease(self, request: LeaseRequest, past: Past | None = None) -> Lease:
        """Lease a pristine namespace; the same owner gets the same lease again.

        With a ``past`` it begins with all that had happened then, under this lease's own delivery ids.
        Raises ``BadInput`` (unknown world, template, tool; a past over another template) or ``NotPristine``.
        """
        ...

    async def so_far(self, namespace: str, generation: int) -> Past:
        """All that has happened under a lease that is not given back yet. Raises ``BadInput`` for any other."""
        ...

    async def call(self, request: DeliveryRequest) -> DeliveryReply:
        """Execute a delivery, or return its recorded outcome.

        Raises ``LateWrite`` when the generation has ended or the call comes from a sandbox that is not the admitted
        one, ``DeliveryConflict`` for another request under the same id.
        """
        ...

    async def admit(self, namespace: str, generation: int, incarnation: int) -> None:
        """Take calls from this incarnation of the episode's sandbox, and from no older one any more; again, and for
        an older one: nothing happens. Raises ``LateWrite`` when the generation has ended."""
        ...

    async def seal(self, namespace: str, generation: int) -> None:
        """Advance the generation: nothing of the lease takes effect any more. Again: nothing happens."""
        ...

    async def drain(self, namespace: str, generation: int) -> DrainReport:
        """Cancel pending jobs of the sealed generation and wait out calls in flight; again: the same report."""
        ...

    async def facts(self, namespace: str, generation: int, collections: Sequence[str]) -> Facts:
        """The sealed generation's rows, with the template's rows of ``collections``."""
        ...

    async def recycle(self, namespace: str, generation: int) -> bool:
        """Give back a drained namespace. False when it was quarantined instead. For another generation than
        the one it was leased under, nothing happens (True)."""
        ...

    async def quarantine(self, namespace: str, generation: int, reason: str) -> None:
        """Never use the namespace again."""
        ...

    async def leases(self) -> tuple[Lease, ...]:
        """All namespaces that are leased or sealed and not yet given back."""
        ...


class Sandboxes(Protocol):
    """Where commands run. One attempt each: the caller sends again, every call is idempotent.

    Each raises ``SandboxUnreachable`` when no answer came, and ``SandboxLost`` for a sandbox or an incarnation that
    is gone. What is in flight in a lost one is unknown, and is never run again. ``SandboxOutOfMemory`` is the loss
    that those in it have brought about.
    """

    async def offer(self, driver: DriverName) -> SandboxOffer:
        """Whether the driver works here, and what it holds a sandbox to. Raises ``EnvironmentFailed`` when that
        cannot be told for now."""
        ...

    async def provision(self, order: SandboxOrder) -> SandboxRef:
        """A fresh sandbox with the order's files; the same name and incarnation: the same one again.

        Waits for a slot. Discards lower incarnations of the name. Raises ``SandboxUnavailable`` where none can be
        made, ``EnvironmentFailed`` when it could not be made this time, and ``SandboxLost`` for an incarnation that
        was there once, or is lower than one that was.
        """
        ...

    async def connect(self, sandbox: SandboxRef, access: WorldAccess) -> None:
        """From now on what programs in it ask of the world that it exposes belongs to this lease. Nobody in it
        reaches a world before. Again: nothing happens.

        Raises ``SandboxUnreachable``, and ``SandboxLost`` for one that is lost or gone.
        """
        ...

    async def call(self, sandbox: SandboxRef, request: SandboxRequest) -> SandboxReply:
        """Do it once and wait for its end; again: the recorded outcome, or wait for it.

        Raises ``DeliveryConflict`` for another request under the same id, ``LateWrite`` after the seal.
        """
        ...

    async def snapshot(self, sandbox: SandboxRef, known: Mapping[str, str]) -> Snapshot:
        """All files, copied while every process is frozen. ``known`` maps paths to digests of contents that the
        caller has: those are left out."""
        ...

    async def settle(self, sandbox: SandboxRef, limit_s: float) -> bool:
        """Wait until no process is left, for ``limit_s`` seconds at most; whether none is."""
        ...

    async def seal(self, sandbox: SandboxRef) -> None:
        """From now on nothing new starts, nor what was accepted and has not started. Again: nothing happens."""
        ...

    async def drain(self, sandbox: SandboxRef) -> SandboxDrain:
        """End every process of a sealed sandbox: TERM, then KILL, then look. Again: the same report."""
        ...

    async def facts(self, sandbox: SandboxRef) -> SandboxFacts:
        """What a drained sandbox says of the episode."""
        ...

    async def release(self, sandbox: SandboxRef) -> None:
        """Reset or discard it, with its processes, files and mounts. Again, or for one that is lost: nothing
        happens. It names an incarnation, and never touches a later one."""
        ...

    async def sandboxes(self) -> tuple[SandboxRecord, ...]:
        """All that are there or lost, and not yet released."""
        ...

    async def sweep(self) -> int:
        """End whatever a driver or an earlier host has left that belongs to no sandbox that is there, is lost or is
        being made; how many were ended. Raises ``EnvironmentFailed`` when that cannot be told of all."""
        ...

    async def capacity(self) -> Capacity:
        """How many fit at once, and for how many there is room: a slot is held from provision to release.

        Raises ``SandboxUnreachable``.
        """
        ...


class Journal(Protocol):
    """Turns of episodes, keyed by (episode, generation). Writes need the token and are insert-if-absent."""

    async def take(self, episode_id: str, generation: int, writer: Writer) -> Writer | None:
        """Take the writer token, and say from whom: at that moment nobody else can have written since. ``None``:
        nobody had taken it yet. Raises ``Replaced`` or ``JournalClosed``."""
        ...

    async def read(self, episode_id: str, generation: int) -> tuple[TurnRecord, ...]:
        """All turns in order."""
        ...

    async def newest(self, episode_id: str) -> int:
        """The last generation of which there are turns, for whoever does not know it; 0 where there is none."""
        ...

    async def begin(
        self, episode_id: str, generation: int, turns: Sequence[TurnRecord], inherited: str = ""
    ) -> None:
        """Begin a journal with turns that have ended elsewhere, and the name of what else comes from there;
        insert-if-absent. Raises ``JournalClosed``."""
        ...

    async def inherited(self, episode_id: str, generation: int) -> str:
        """The name that it began with; empty for a journal that began with nothing."""
        ...

    async def decide(self, episode_id: str, generation: int, writer: Writer, turn: int, decision: Decision) -> None:
        """Journal a decision before its effects. Raises ``Replaced`` or ``JournalClosed``."""
        ...

    async def observe(
        self,
        episode_id: str,
        generation: int,
        writer: Writer,
        turn: int,
        observations: tuple[Observation, ...],
        faults: tuple[str, ...],
        now_s: int,
    ) -> None:
        """Journal what a turn's calls were answered."""
        ...

    async def checkpoint(self, episode_id: str, generation: int, writer: Writer, turn: int, name: str) -> None:
        """Name the object that holds the sandbox's files as they were after ``turn``, which has ended."""
        ...

    async def close(self, episode_id: str, generation: int) -> None:
        """Seal: nothing is written any more."""
        ...


class Records(Protocol):
    """Episodes and their outcomes."""

    async def plan(self, specs: Sequence[EpisodeSpec]) -> None:
        """Record planned trials before the first one starts; insert-if-absent."""
        ...

    async def record(self, result: EpisodeResult) -> EpisodeResult:
        """Record an outcome, insert-if-absent. Returns the outcome that stands."""
        ...

    async def spec(self, episode_id: str) -> EpisodeSpec | None: ...

    async def result(self, episode_id: str) -> EpisodeResult | None: ...

    async def episodes(
        self, limit: int = 50, before: str = ""
    ) -> tuple[tuple[EpisodeSpec, EpisodeResult | None], ...]:
        """The newest planned trials first; of those that were planned before the episode ``before``, where one is
        given."""
        ...

    async def unfinished(self, older_than: timedelta) -> tuple[EpisodeSpec, ...]:
        """Trials planned at least that long ago that have no outcome yet; the janitor looks after them."""
        ...

    async def beat(self, beat: HostBeat) -> None:
        """Note that a host is there, and its capacity; the last one counts. Raises ``EnvironmentFailed`` when that
        cannot be written."""
        ...

    async def hosts(self, task_queue: str) -> tuple[HostRecord, ...]:
        """What was last heard of each host that ever served this task queue, by name; of a ``forgotten`` one too.
        Raises ``EnvironmentFailed`` when it cannot be read."""
        ...


class Objects(Protocol):
    """Content-addressed objects: the name is the SHA-256 of the bytes."""

    async def put(self, data: bytes) -> str:
        """Store the bytes, whole or not at all; its name. Again: nothing happens.

        Raises ``ObjectsUnreachable`` when that was not confirmed, ``BadInput`` for more than a store can take.
        """
        ...

    async def get(self, name: str) -> bytes:
        """Raises ``EnvironmentFailed`` when it is missing or its bytes do not match its name, and
        ``ObjectsUnreachable`` when the store is away."""
        ...


class Policy(Protocol):
    """What decides: a function of the view alone."""

    async def act(self, view: View) -> Decision: ...


class OpenPolicy(Policy, Protocol):
    """A policy in use by one episode; ``close`` ends what it started. Again: nothing happens."""

    @property
    def recording(self) -> Recording | None:
        """What it plays; ``None`` for one that decides."""
        ...

    async def close(self) -> None: ...


@dataclass(frozen=True)
class Ended:
    """Processes that a policy left. Its own, which waits for the next view, is none of them until it will not end.

    ``killed`` of them outlived TERM and the policy's guardian.
    """

    found: int = 0
    killed: int = 0

    def __add__(self, other: "Ended") -> "Ended":
        return Ended(self.found + other.found, self.killed + other.killed)


NONE_ENDED = Ended()


class Policies(Protocol):
    """Opens policies; the composition root decides where their processes live."""

    async def open(self, episode_id: str, spec: EpisodeSpec, task: Task) -> OpenPolicy:
        """The episode's policy, started if need be; one process an episode. Raises ``BadPolicy``."""
        ...

    async def close(self, episode_id: str) -> Ended:
        """End the episode's policy and every process that it left; all that was ended so far. Again: the same."""
        ...


class ChainState(StrEnum):
    """How a workflow's chain of runs stands; ``GONE`` is unknown to the cluster or replaced by another chain."""

    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    TERMINATED = "terminated"
    TIMED_OUT = "timed_out"
    GONE = "gone"


@dataclass(frozen=True)
class Chain:
    """A workflow's chain of runs. ``failed_attempts`` counts failures of its current task in a row.

    ``version`` is what its next task is for, where only one version of the workflows' code may have it. ``reason``
    is why it was terminated, as whoever did it said.
    """

    state: ChainState
    failed_attempts: int = 0
    version: str = ""
    reason: str = ""


class Chains(Protocol):
    """Workflows as the owners of leases, described by workflow id and first run id."""

    async def describe(self, owner: Owner) -> Chain:
        """Raises ``EnvironmentFailed`` when the cluster does not answer. An empty ``first_run_id`` is any."""
        ...

    async def holding(self, owner: Owner) -> SandboxHolding | None:
        """What the episode says of its sandbox, also one that has ended. ``None`` where it is gone and where it
        does not answer, which cannot be told apart: so it does not mean that there is no sandbox."""
        ...

    async def terminate(self, owner: Owner, reason: str) -> None:
        """End it without its consent; one that is gone is no error. Raises as ``describe`` does."""
        ...


class Versions(Protocol):
    """Versions of the workflows' code. All raise ``EnvironmentFailed`` when the cluster does not answer."""

    async def served(self) -> Set[str]:
        """Those that have a worker: ours among them."""
        ...

    async def move(self, owner: Owner) -> str:
        """Have the workflow go on with our version, if that would have decided all that it has decided so far. Else
        the first thing that it would do otherwise; then nothing has happened."""
        ...
