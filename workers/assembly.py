"""A Temporal worker made of parts. Tests assemble fakes with it, ``bootstrap`` the drivers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from typing import Any

from temporalio.client import Client
from temporalio.worker import Worker
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions

from activities.closing import ClosingActivities
from activities.leasing import LeaseActivities
from activities.turns import TurnActivities
from activities.upkeep import UpkeepActivities
from tiltyard.episode.closing import Closer
from tiltyard.episode.collecting import SandboxCloser
from tiltyard.episode.delivery import Reconciler
from tiltyard.episode.gateway import Gateway
from tiltyard.episode.grading import Examiner
from tiltyard.episode.leasing import Leasing
from tiltyard.episode.sandboxing import Checkpoints, Sandboxing
from tiltyard.episode.slices import Committed, SliceRunner
from tiltyard.episode.tasks import TaskShelf
from tiltyard.ports import Chains, Journal, Objects, Policies, Records, Sandboxes, World
from workers.settings import Settings
from workflows.episode import EpisodeWorkflow
from workflows.janitor import JanitorWorkflow, ReclaimWorkflow

WORKFLOWS: tuple[type, ...] = (EpisodeWorkflow, JanitorWorkflow, ReclaimWorkflow)

PASSED_THROUGH = ("schemas", "tiltyard", "activities", "yaml", "jinja2", "tenacity", "markupsafe")
"""Modules that the workflow sandbox does not import again for each run: data, and what activities need. Workflow
code is not among them: it is what the sandbox guards."""

GRACE = timedelta(seconds=5)
"""How long a stopping worker lets its activities end by themselves."""

STICKY = timedelta(seconds=2)
"""How long a workflow waits for the worker that has it in memory, before any other may take it up."""

MAX_HEARTBEAT_THROTTLE = timedelta(seconds=1)
"""Heartbeats carry cancellations: the SDK must not hold them back for long."""


@dataclass(frozen=True)
class Parts:
    """The outside, as ports."""

    world: World
    journal: Journal
    records: Records
    objects: Objects
    policies: Policies
    chains: Chains
    sandboxes: Sandboxes


def activities_of(
    parts: Parts, settings: Settings, committed: Committed = lambda episode_id: None
) -> list[Callable[..., Any]]:
    """All activities over these parts."""
    load_task = TaskShelf(parts.objects).load
    reconciler = Reconciler(parts.world, settings.call_deadline)
    place = settings.cluster, settings.temporal_namespace
    gateway = Gateway(parts.world, reconciler, parts.sandboxes)
    checkpoints = Checkpoints(parts.sandboxes, reconciler, parts.objects)
    turns = TurnActivities(SliceRunner(gateway, checkpoints, parts.journal, parts.policies, load_task, committed))
    leases = LeaseActivities(
        Leasing(parts.world, reconciler, load_task, *place),
        Sandboxing(parts.sandboxes, reconciler, parts.journal, parts.objects, load_task, *place),
    )
    boxes = SandboxCloser(parts.sandboxes, reconciler, parts.objects)
    closing = ClosingActivities(
        Closer(parts.world, reconciler, gateway, boxes, parts.journal, parts.objects, parts.policies, load_task),
        Examiner(parts.objects, parts.records, parts.sandboxes, *place),
    )
    upkeep = UpkeepActivities(parts.world, parts.sandboxes, reconciler, parts.records, parts.chains, *place)
    return [
        *(turns.run_slice, leases.lease, leases.provision, leases.release),
        *(closing.close, closing.grade, upkeep.inspect),
    ]


def worker_of(
    client: Client,
    activities: Sequence[Callable[..., Any]],
    task_queue: str,
    workflows: Sequence[type] = WORKFLOWS,
    grace: timedelta = GRACE,
) -> Worker:
    """A worker that runs workflows and activities on one queue. At its end activities have ``grace`` to end too."""
    return Worker(
        client,
        task_queue=task_queue,
        workflows=list(workflows),
        activities=list(activities),
        workflow_runner=workflow_runner(),
        graceful_shutdown_timeout=grace,
        sticky_queue_schedule_to_start_timeout=STICKY,
        max_heartbeat_throttle_interval=MAX_HEARTBEAT_THROTTLE,
        default_heartbeat_throttle_interval=MAX_HEARTBEAT_THROTTLE,
    )


@lru_cache(maxsize=1)
def workflow_runner() -> SandboxedWorkflowRunner:
    """The runner of worker and replayer; our modules are set as passed through once, here."""
    return SandboxedWorkflowRunner(
        restrictions=SandboxRestrictions.default.with_passthrough_modules(*PASSED_THROUGH)
    )
