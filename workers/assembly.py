"""A Temporal worker made of parts. Tests assemble fakes with it, ``bootstrap`` the drivers."""

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence, Set
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property, lru_cache, partial
from typing import Any

from temporalio.client import Client
from temporalio.common import WorkerDeploymentVersion
from temporalio.worker import (
    PollerBehaviorSimpleMaximum,
    UnsandboxedWorkflowRunner,
    Worker,
    WorkerDeploymentConfig,
    WorkerTuner,
)
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions

from activities.closing import ClosingActivities
from activities.hosting import HostActivities
from activities.leasing import LeaseActivities
from activities.turns import TurnActivities
from activities.upgrading import UpgradeActivities
from activities.upkeep import UpkeepActivities
from schemas.host import host_queue, sandboxes_queue
from schemas.task import Task
from tiltyard.episode.closing import Closer
from tiltyard.episode.collecting import SandboxCloser
from tiltyard.episode.delivery import Reconciler
from tiltyard.episode.gateway import Gateway
from tiltyard.episode.giving_up import GivingUp
from tiltyard.episode.grading import Examiner
from tiltyard.episode.known import KnownJournals
from tiltyard.episode.leasing import Leasing
from tiltyard.episode.sandboxing import Checkpoints, Sandboxing
from tiltyard.episode.slices import Committed, SliceRunner
from tiltyard.episode.tasks import TaskShelf
from tiltyard.policies.recorded import PoliciesAndRecordings
from tiltyard.ports import Chains, Journal, Objects, Policies, Records, Sandboxes, Versions, World
from tiltyard.reopen.branching import Branching
from workers.histories import problem_of
from workers.hosts import beating
from workers.permits import SandboxPermits, by_permit
from workers.settings import Settings
from workers.unversioned import UnversionedRunner
from workers.versions import GONE, TemporalVersions, keeping_current
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


ORDERS = frozenset({"find_permit"})
"""What is taken up only where there is room for a sandbox."""

HOST_STEPS = frozenset({"provision", "run_slice", "give_up", "release", "close", "look", "discard"})
"""What is done by the host that has the sandbox. What is done for an episode without one, any worker does."""

POLLS, HOST_POLLS = 5, 5
"""Requests for more activities that are open at once: of any episode, and of those whose sandboxes are here."""

MOST = 100
"""Activities of episodes without a sandbox that a worker does at once."""

SPARE = 16
"""Activities that a host does at once beside one for each of its sandboxes."""


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


@dataclass(frozen=True)
class _Bench:
    """What the classes of activities are made of: parts, settings, and what follows from them."""

    parts: Parts
    settings: Settings
    committed: Committed
    permits: SandboxPermits
    versions: Versions | None = None

    @cached_property
    def load_task(self) -> Callable[[str], Awaitable[Task]]:
        return TaskShelf(self.parts.objects).load

    @cached_property
    def reconciler(self) -> Reconciler:
        return Reconciler(self.parts.world, self.settings.call_deadline)

    @cached_property
    def gateway(self) -> Gateway:
        return Gateway(self.parts.world, self.reconciler, self.parts.sandboxes)

    @cached_property
    def checkpoints(self) -> Checkpoints:
        return Checkpoints(self.parts.sandboxes, self.reconciler, self.parts.objects)

    @cached_property
    def known(self) -> KnownJournals:
        return KnownJournals()

    @cached_property
    def branching(self) -> Branching:
        parts = self.parts
        kept = parts.journal, parts.records, parts.objects
        return Branching(parts.world, self.reconciler, *kept, self.load_task)

    @cached_property
    def policies(self) -> Policies:
        return PoliciesAndRecordings(self.parts.policies, self.parts.objects)

    @cached_property
    def place(self) -> tuple[str, str]:
        return self.settings.cluster, self.settings.temporal_namespace


def activities_of(
    parts: Parts,
    settings: Settings,
    committed: Committed = lambda episode_id: None,
    permits: SandboxPermits | None = None,
    versions: Versions | None = None,
) -> list[Callable[..., Any]]:
    """All activities over these parts; of a worker without ``versions`` those that need none."""
    bench = _Bench(parts, settings, committed, permits or SandboxPermits(parts.sandboxes.capacity), versions)
    turns, leases, closing = _turns(bench), _leases(bench), _closing(bench)
    hosting, upkeep = _hosting(bench), _upkeep(bench)
    upgrades = [UpgradeActivities(versions, parts.chains).upgrade] if versions else []
    return [
        *upgrades,
        *(turns.run_slice, leases.lease, leases.provision, leases.give_up, leases.release),
        *(closing.close, closing.grade, upkeep.inspect),
        *(hosting.find_permit, hosting.is_lost, hosting.hosts, hosting.look, hosting.discard),
    ]


def _turns(of: _Bench) -> TurnActivities:
    parts = of.parts
    kept = parts.journal, of.policies, of.load_task
    runner = SliceRunner(of.gateway, of.checkpoints, *kept, of.committed, of.known)
    return TurnActivities(runner, of.settings.host)


def _leases(of: _Bench) -> LeaseActivities:
    parts, reach = of.parts, (of.parts.sandboxes, of.reconciler)
    return LeaseActivities(
        Leasing(
            *(parts.world, of.reconciler, of.load_task, parts.journal, parts.objects, of.branching.point, *of.place)
        ),
        Sandboxing(*reach, parts.journal, parts.objects, of.load_task, *of.place),
        GivingUp(*reach, of.checkpoints, parts.journal, parts.objects, of.load_task),
        of.settings.host,
        of.permits,
    )


def _closing(of: _Bench) -> ClosingActivities:
    parts = of.parts
    boxes = SandboxCloser(parts.sandboxes, of.reconciler, parts.objects)
    kept = parts.journal, parts.objects, of.policies
    return ClosingActivities(
        Closer(parts.world, of.reconciler, of.gateway, boxes, *kept, of.load_task, of.known),
        Examiner(parts.objects, parts.records, parts.sandboxes, *of.place),
        of.settings.host,
    )


def _hosting(of: _Bench) -> HostActivities:
    parts, here = of.parts, (of.settings.host, _clock(), of.permits)
    return HostActivities(*here, parts.sandboxes, of.reconciler, parts.records, parts.chains, *of.place)


def _upkeep(of: _Bench) -> UpkeepActivities:
    return UpkeepActivities(
        of.parts.world, of.reconciler, of.parts.records, of.parts.chains, *of.place, of.versions
    )


def _clock() -> Callable[[], float]:
    """Seconds since now."""
    began = time.monotonic()
    return lambda: time.monotonic() - began


@asynccontextmanager
async def at_work(
    client: Client,
    parts: Parts,
    settings: Settings,
    committed: Committed = lambda episode_id: None,
    workflows: Sequence[type] = WORKFLOWS,
    grace: timedelta = GRACE,
    build: str = "",
    gone: timedelta = GONE,
) -> AsyncIterator[None]:
    """All that one worker process does: for any episode, for those whose sandboxes its host has, and, while the
    host has room, for those that look for some. It tells that the host is there before it takes anything up.

    ``build`` names the version of the workflows, which becomes the current one; without one, the worker takes what
    has no version either. A worker of another version is ``gone`` that has been silent for so long.
    """
    permits = SandboxPermits(parts.sandboxes.capacity)
    queue, host = settings.task_queue, host_queue(settings.task_queue, settings.host)
    problem = partial(problem_of, workflows=workflows, runner=workflow_runner())
    versions = TemporalVersions(client, queue, build, problem, gone) if build else None
    activities = activities_of(parts, settings, committed, permits, versions)
    anything = worker_of(
        *(client, activities, queue, workflows, grace),
        most=settings.slots + MOST,
        version=versions.ours if versions else None,
    )
    here = worker_of(
        *(client, _only(activities, HOST_STEPS), host, (), grace), most=settings.slots + SPARE, polls=HOST_POLLS
    )
    orders = worker_of(
        *(client, _only(activities, ORDERS), sandboxes_queue(queue), (), grace),
        tuner=by_permit(permits),
        polls=1,
    )
    current = keeping_current(versions) if versions else nullcontext()
    async with beating(parts.records, parts.sandboxes, settings), anything, here, orders, current:
        yield


def _only(activities: Sequence[Callable[..., Any]], names: Set[str]) -> list[Callable[..., Any]]:
    return [one for one in activities if one.__name__ in names]


def worker_of(
    client: Client,
    activities: Sequence[Callable[..., Any]],
    task_queue: str,
    workflows: Sequence[type] = WORKFLOWS,
    grace: timedelta = GRACE,
    tuner: WorkerTuner | None = None,
    most: int | None = None,
    polls: int = POLLS,
    version: WorkerDeploymentVersion | None = None,
) -> Worker:
    """A worker that runs workflows and activities on one queue. At its end activities have ``grace`` to end too.

    ``most`` activities run at once, or as many as the ``tuner`` says; ``polls`` ask for more of them.
    What has a ``version`` gets what began with it, and what begins while it is the current one.
    """
    deployment = WorkerDeploymentConfig(version=version, use_worker_versioning=True) if version else None
    return Worker(
        client,
        task_queue=task_queue,
        workflows=list(workflows),
        activities=list(activities),
        workflow_runner=workflow_runner(versioned=version is not None),
        graceful_shutdown_timeout=grace,
        deployment_config=deployment,
        tuner=tuner,
        max_concurrent_activities=most,
        activity_task_poller_behavior=PollerBehaviorSimpleMaximum(polls),
        sticky_queue_schedule_to_start_timeout=STICKY,
        max_heartbeat_throttle_interval=MAX_HEARTBEAT_THROTTLE,
        default_heartbeat_throttle_interval=MAX_HEARTBEAT_THROTTLE,
    )


@lru_cache(maxsize=2)
def workflow_runner(versioned: bool = True) -> SandboxedWorkflowRunner:
    """The runner of worker and replayer; our modules are set as passed through once, here."""
    return SandboxedWorkflowRunner(
        restrictions=SandboxRestrictions.default.with_passthrough_modules(*PASSED_THROUGH),
        runner_class=UnsandboxedWorkflowRunner if versioned else UnversionedRunner,
    )
