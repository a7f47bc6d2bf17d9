"""What a world says of itself: leases, deliveries, ledger, jobs, facts."""

from typing import Literal

from pydantic import Field, JsonValue

from schemas.base import JsonObject, Model
from schemas.fault import Fault

TOO_MANY_JOBS = "too_many_jobs"
"""The code of a call that met more due jobs than one call may run: time has stood still with them."""

SYSTEM = "~"
"""Collections whose name starts with this hold the engine's own rows: clock, jobs, receipts, counters."""


class Owner(Model):
    """The workflow that holds a lease: its chain, not one run of it (``first_run_id``)."""

    cluster: str
    temporal_namespace: str
    workflow_id: str
    first_run_id: str


class TemplateRef(Model):
    """A world's starting state: a loader or generator of the world by name, with its parameters."""

    name: str = "default"
    params: JsonObject = {}


class LeaseRequest(Model):
    """What one episode needs of a world. Idempotent per ``owner``.

    ``tools`` is the task's allow-list; empty is all of the world's. ``inside_tools`` are what programs in the
    episode's sandbox may call; empty is none.
    """

    owner: Owner
    episode_id: str
    world: str
    template: TemplateRef = TemplateRef()
    tools: tuple[str, ...] = ()
    inside_tools: tuple[str, ...] = ()
    faults: tuple[Fault, ...] = ()
    seed: int = 0


class Lease(Model):
    """A leased namespace. ``generation`` fences every write of the episode. ``past`` is the digest of the past that
    it begins with; empty is none."""

    namespace: str
    generation: int
    owner: Owner
    episode_id: str
    world: str
    template_digest: str
    tools_digest: str
    state_digest: str = Field(description="digest of what the namespace was found to hold, equal to a pristine one")
    past: str = ""


class DeliveryRequest(Model):
    """One tool call as the harness sends it; every retry sends the same one.

    ``elsewhere_s`` is the virtual time that the episode has spent outside the world so far, all in all: what its
    commands cost. The world's clock makes up for what it has not yet seen of it before the tool runs.
    ``incarnation`` is the sandbox's that the call came from; 0 is a call of the agent's own.
    """

    namespace: str
    generation: int
    delivery_id: str
    tool: str
    arguments: JsonObject
    elsewhere_s: int = Field(default=0, ge=0)
    incarnation: int = Field(default=0, ge=0)


class Shown(Model):
    """What the agent is to be shown of a delivery; recorded with it, so a repeat shows the same."""

    status: Literal["ok", "error", "timeout"]
    content: JsonValue = None
    code: str = ""
    message: str = ""


class DeliveryReply(Model):
    """The recorded outcome of a delivery.

    ``committed`` says whether it changed the world: an entity, or a job that it scheduled. ``first`` and ``last``
    bound its ledger rows (last < first when there are none). ``fault`` names the planned fault that fired.
    ``now_s`` is the world's clock after it, ``elsewhere_s`` how much time outside of it that had made up for.
    """

    delivery_id: str
    shown: Shown
    committed: bool
    first: int
    last: int
    fault: str = ""
    now_s: int
    elsewhere_s: int = 0


class LedgerRow(Model):
    """One row change. ``cause`` is exactly one committed delivery or one deferred job (I1).

    ``before`` and ``after`` are whole row images; ``None`` is absent.
    """

    position: int
    cause_kind: Literal["delivery", "job"]
    cause: str
    tool: str = Field(description="the tool called, or the kind of job")
    operation_id: str | None = None
    world: str
    collection: str
    key: str
    before: JsonValue = None
    after: JsonValue = None
    at_s: int

    @property
    def system(self) -> bool:
        return self.collection.startswith(SYSTEM)


class DeliveryRecord(Model):
    """A delivery as recorded: the request, its digest and its outcome. ``reply`` is ``None`` while it is open.

    Calls of equal ``arguments_digest`` are the same operation: it is taken of the tool and of its arguments as it
    read them, defaults filled in, without the operation id; of arguments that it refused, as they were sent.
    """

    delivery_id: str
    tool: str
    arguments: JsonObject
    request_digest: str
    arguments_digest: str
    reply: DeliveryReply | None


class Receipt(Model):
    """The world's record that an operation id was accepted."""

    operation_id: str
    tool: str
    arguments_digest: str
    delivery_id: str
    at_s: int
    result: JsonValue = None


class Job(Model):
    """A deferred job. ``created_by`` is the cause that scheduled it, empty for a job of the template."""

    job_id: str
    kind: str
    arguments: JsonObject
    due_s: int
    state: Literal["pending", "done", "failed", "cancelled"] = "pending"
    created_by: str = ""
    error: str = ""


class LateWrite(Model):
    """A refused write with an old generation, or from an old incarnation of the sandbox (I3)."""

    delivery_id: str
    tool: str
    generation: int
    current_generation: int
    incarnation: int = 0
    current_incarnation: int = 0


class RowChange(Model):
    """Net change of one entity between the template and the end; ``None`` is absent."""

    world: str
    collection: str
    key: str
    before: JsonValue = None
    after: JsonValue = None


class Row(Model):
    """One entity with its body."""

    world: str
    collection: str
    key: str
    body: JsonValue


class DrainReport(Model):
    """What draining found and ended. It is part of the result.

    Processes are those that an outside policy has started and left, and a sandbox's. The policy's own, which waits
    for the next view, counts only where it would not end. ``ended_by_kill`` counts those that TERM and the policy's
    guardian did not end. ``in_flight`` are world calls that were under way at the seal.
    """

    jobs_found: int = 0
    jobs_cancelled: int = 0
    in_flight: int = 0
    late_writes: int = 0
    processes_found: int = 0
    ended_by_term: int = 0
    ended_by_kill: int = 0
    empty: bool = True


class Facts(Model):
    """The sealed generation's rows: what graders judge by, and nothing else (I8)."""

    namespace: str
    generation: int
    world: str
    template: TemplateRef
    template_digest: str
    tools_digest: str
    now_s: int
    deliveries: tuple[DeliveryRecord, ...] = ()
    ledger: tuple[LedgerRow, ...] = ()
    receipts: tuple[Receipt, ...] = ()
    jobs: tuple[Job, ...] = ()
    late: tuple[LateWrite, ...] = ()
    before_drain: tuple[RowChange, ...] = ()
    changes: tuple[RowChange, ...] = ()
    initial: tuple[Row, ...] = Field(
        default=(), description="the template's rows of the collections that the grader asked for"
    )
