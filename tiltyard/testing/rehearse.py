"""One episode in this process, at once: the real slices and closing over an engine, without Temporal.

evidence = asyncio.run(rehearse(task, open_script("reconcile", task), engine))
result = examine(task, evidence, engine.describe(task.world))
"""

from datetime import timedelta

from schemas.branch import BranchPoint
from schemas.episode import EpisodeSpec, Origin, PolicySpec
from schemas.evidence import Evidence
from schemas.recording import RECORDED, Recording
from schemas.sandbox import DriverName
from schemas.slice import CloseRequest, Ending, LeaseRef, ReleaseRequest, SliceReport, SliceRequest
from schemas.start import LeaseOrder, Provisioned, ProvisionOrder
from schemas.task import Task
from tiltyard.episode.closing import Closer
from tiltyard.episode.collecting import SandboxCloser
from tiltyard.episode.delivery import Reconciler
from tiltyard.episode.gateway import Gateway
from tiltyard.episode.leasing import Leasing
from tiltyard.episode.sandboxing import Checkpoints, Sandboxing
from tiltyard.episode.slices import SliceRunner
from tiltyard.episode.tasks import TaskShelf
from tiltyard.errors import EnvironmentFailed
from tiltyard.policies.recorded import PoliciesAndRecordings, keep
from tiltyard.ports import NONE_ENDED, Ended, Objects, Policy, Sandboxes
from tiltyard.testing.local_world import LocalWorld
from tiltyard.testing.memory_journal import MemoryJournal
from tiltyard.testing.memory_objects import MemoryObjects
from tiltyard.testing.memory_policies import MemoryPolicies
from tiltyard.testing.memory_sandboxes import MemorySandboxes
from tiltyard.trace import unpack
from tiltyard.worlds.engine import Engine


async def rehearse(
    task: Task,
    policy: Policy | Recording,
    engine: Engine,
    *,
    seed: int = 0,
    name: str = "rehearsed",
    recycle: bool = True,
    ended: Ended = NONE_ENDED,
    sandboxes: Sandboxes | None = None,
    driver: DriverName = "bubblewrap",
    objects: Objects | None = None,
    point: BranchPoint | None = None,
    slice_turns: int | None = None,
) -> Evidence:
    """Play ``task`` to its end, seal, drain, and give what graders judge by.

    With a ``point`` it is a fork, which begins there. ``slice_turns`` is how many turns a slice has at most.

    A recording is played as a replay plays it; of any other policy ``name`` becomes the name. It is the episode's
    id too. A question that the task has no answer for stays unanswered, and no wait takes real time. The namespace
    is recycled, or left as it is for a closer look. ``ended`` is what the policy is said to have left of processes.
    Commands run in ``sandboxes`` under ``driver``; without any, in a little shell in memory. ``objects`` are where
    the trace and the sandbox's files are kept.
    Raises ``EnvironmentFailed`` when it is not pristine afterwards.
    """
    rehearsal = _Rehearsal(
        task, policy, engine, name, ended, sandboxes or MemorySandboxes(), objects or MemoryObjects(), point
    )
    spec = EpisodeSpec(
        episode_id=name,
        task_id=task.id,
        task_digest=await rehearsal.shelf.store(task),
        world=task.world,
        policy=await rehearsal.policy_spec(policy, name),
        seed=seed,
        limits=task.limits,
        sandbox=driver if task.needs_sandbox else None,
        origin=None if point is None else Origin(kind="fork", episode_id=point.episode_id, turn=point.turn),
    )
    lease = await rehearsal.leasing.lease(LeaseOrder(spec=spec, first_run_id=name), name)
    made = await rehearsal.provision(spec, lease)
    sandbox = made.sandbox if made is not None else None
    ending = await rehearsal.play(spec, lease, made, slice_turns)
    settle, earlier = ending.settles, made.earlier if made is not None else ""
    request = CloseRequest(spec=spec, lease=lease, ending=ending, settle=settle, sandbox=sandbox, earlier=earlier)
    closed = await rehearsal.closer.close(request)
    evidence = unpack(await rehearsal.objects.get(closed.trace)).evidence
    if sandbox is not None:
        await rehearsal.sandboxing.release(sandbox)
    if recycle and not await rehearsal.leasing.release(ReleaseRequest(lease=lease)):
        raise EnvironmentFailed(f"the namespace of {name} was quarantined")
    return evidence


class _Rehearsal:
    """The pieces of an episode, put together over one engine."""

    def __init__(
        self,
        task: Task,
        policy: Policy | Recording,
        engine: Engine,
        name: str,
        ended: Ended,
        sandboxes: Sandboxes,
        objects: Objects,
        point: BranchPoint | None,
    ) -> None:
        self._point = point
        world, journal, self.objects = LocalWorld(engine), MemoryJournal(), objects
        scripts = MemoryPolicies({} if isinstance(policy, Recording) else {name: policy.act}, ended)
        policies = PoliciesAndRecordings(scripts, objects)
        reconciler = Reconciler(world, timedelta(seconds=5))
        self.shelf = TaskShelf(self.objects)
        self.leasing = Leasing(
            *(world, reconciler, self.shelf.load, journal, self.objects, self._branch, "rehearsal", "rehearsal")
        )
        gateway = Gateway(world, reconciler, sandboxes)
        checkpoints = Checkpoints(sandboxes, reconciler, self.objects)
        self.sandboxing = Sandboxing(
            sandboxes, reconciler, journal, self.objects, self.shelf.load, "rehearsal", "rehearsal"
        )
        self.runner = SliceRunner(gateway, checkpoints, journal, policies, self.shelf.load)
        boxes = SandboxCloser(sandboxes, reconciler, self.objects)
        self.closer = Closer(world, reconciler, gateway, boxes, journal, self.objects, policies, self.shelf.load)
        self._wall_s = task.limits.wall_s

    async def policy_spec(self, policy: Policy | Recording, name: str) -> PolicySpec:
        if isinstance(policy, Recording):
            return PolicySpec(target=RECORDED, digest=await keep(self.objects, policy))
        return PolicySpec(target=name)

    async def _branch(self, origin: Origin) -> BranchPoint:
        assert self._point is not None, f"{origin.episode_id} is not here: a fork is given its point"
        return self._point

    async def provision(self, spec: EpisodeSpec, lease: LeaseRef) -> Provisioned | None:
        if spec.sandbox is None:
            return None
        order = ProvisionOrder(spec=spec, first_run_id=spec.episode_id, generation=lease.generation)
        return await self.sandboxing.provision(order, spec.episode_id)

    async def play(
        self, spec: EpisodeSpec, lease: LeaseRef, made: Provisioned | None, slice_turns: int | None
    ) -> Ending:
        """Slices until the end. Nobody answers questions here, and nobody sleeps."""
        request = SliceRequest(
            spec=spec,
            lease=lease,
            run_id=spec.episode_id,
            slice_no=0,
            seconds=self._wall_s,
            max_turns=slice_turns,
            wall_left_s=self._wall_s,
            sandbox=made.sandbox if made is not None else None,
            restored=made.told(spec.kept_turns) if made is not None else None,
        )
        report = await self.runner.run(request, "only")
        while report.ending is None:
            request = request.model_copy(update=_going_on(request, report))
            report = await self.runner.run(request, "only")
        return report.ending


def _going_on(request: SliceRequest, report: SliceReport) -> dict[str, object]:
    return {
        "slice_no": request.slice_no + 1,
        "noticed": report.noticed,
        "answered": report.reason == "question",
        "waited": report.waiting_for,
    }
