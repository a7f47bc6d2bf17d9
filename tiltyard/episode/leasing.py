"""Taking a namespace for an episode and giving it back."""

from collections.abc import Awaitable, Callable

from schemas.branch import BranchPoint, Inherited
from schemas.episode import Origin
from schemas.slice import LeaseRef, ReleaseRequest
from schemas.start import LeaseOrder
from schemas.task import Task
from schemas.world import LeaseRequest, Owner
from tiltyard.episode.delivery import Reconciler
from tiltyard.episode.inheritance import keep_inherited
from tiltyard.episode.said import keep_said, said_as
from tiltyard.episode.sandboxing import last_checkpoint
from tiltyard.ports import Journal, Objects, World
from tiltyard.sandbox.tools import inside_tools, world_tools

Branch = Callable[[Origin], Awaitable[BranchPoint]]


class Leasing:
    """Leases belong to workflows, not to workers: an outage of an hour loses nothing.

    ``branch`` gives the state that a fork begins with. ``cluster`` and ``temporal_namespace`` say where the owning
    workflows live.
    """

    def __init__(
        self,
        world: World,
        reconciler: Reconciler,
        load_task: Callable[[str], Awaitable[Task]],
        journal: Journal,
        objects: Objects,
        branch: Branch,
        cluster: str,
        temporal_namespace: str,
    ) -> None:
        self._world = world
        self._reconciler = reconciler
        self._load_task = load_task
        self._journal = journal
        self._objects = objects
        self._branch = branch
        self._cluster = cluster
        self._temporal_namespace = temporal_namespace

    async def lease(self, order: LeaseOrder, workflow_id: str) -> LeaseRef:
        """A pristine namespace, which a fork begins with its parent's past, in the journal too; the same chain of
        runs gets the same one again.

        Raises what the world does, and ``branch`` does.
        """
        task = await self._load_task(order.spec.task_digest)
        owner = Owner(
            cluster=self._cluster,
            temporal_namespace=self._temporal_namespace,
            workflow_id=workflow_id,
            first_run_id=order.first_run_id,
        )
        request = LeaseRequest(
            owner=owner,
            episode_id=order.spec.episode_id,
            world=task.world,
            template=task.template,
            tools=world_tools(task),
            inside_tools=inside_tools(task),
            faults=task.faults,
            seed=order.spec.seed,
        )
        point = await self._branch(order.spec.origin) if order.spec.origin and order.spec.kept_turns else None
        past = point.world if point is not None else None
        lease = await self._reconciler.until_reply(lambda: self._world.lease(request, past))
        taken = LeaseRef(namespace=lease.namespace, generation=lease.generation)
        if point is not None:
            await self._begin(order.spec.episode_id, taken.generation, point)
        return taken

    async def _begin(self, episode_id: str, generation: int, point: BranchPoint) -> None:
        before = f"{point.world.episode_id}/{point.world.generation}/"
        said = said_as(point.said, before, f"{episode_id}/{generation}/")
        saved = last_checkpoint(point.turns)
        inherited = Inherited(
            earlier=await keep_said(self._objects, said) if said else "",
            checkpoint=saved.checkpoint if saved is not None else "",
            saved_turn=saved.turn if saved is not None else None,
            lost=point.lost,
        )
        name = await keep_inherited(self._objects, inherited)
        await self._journal.begin(episode_id, generation, point.turns, name)

    async def release(self, request: ReleaseRequest) -> bool:
        """Recycle, or seal and quarantine where a reason is given; both name the generation that they mean."""
        lease = request.lease
        if lease is None:  # there is a sandbox only
            return True
        if request.quarantine:
            await self._reconciler.until_reply(lambda: self._world.seal(lease.namespace, lease.generation))
            await self._reconciler.until_reply(
                lambda: self._world.quarantine(lease.namespace, lease.generation, request.quarantine)
            )
            return False
        return await self._reconciler.until_reply(lambda: self._world.recycle(lease.namespace, lease.generation))
