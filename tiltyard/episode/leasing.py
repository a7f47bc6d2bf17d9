"""Taking a namespace for an episode and giving it back."""

from collections.abc import Awaitable, Callable

from schemas.slice import LeaseRef, ReleaseRequest
from schemas.start import LeaseOrder
from schemas.task import Task
from schemas.world import LeaseRequest, Owner
from tiltyard.episode.delivery import Reconciler
from tiltyard.ports import World
from tiltyard.sandbox.tools import inside_tools, world_tools


class Leasing:
    """Leases belong to workflows, not to workers: an outage of an hour loses nothing.

    ``cluster`` and ``temporal_namespace`` say where the owning workflows live.
    """

    def __init__(
        self,
        world: World,
        reconciler: Reconciler,
        load_task: Callable[[str], Awaitable[Task]],
        cluster: str,
        temporal_namespace: str,
    ) -> None:
        self._world = world
        self._reconciler = reconciler
        self._load_task = load_task
        self._cluster = cluster
        self._temporal_namespace = temporal_namespace

    async def lease(self, order: LeaseOrder, workflow_id: str) -> LeaseRef:
        """A pristine namespace; the same chain of runs gets the same one again."""
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
        lease = await self._reconciler.until_reply(lambda: self._world.lease(request))
        return LeaseRef(namespace=lease.namespace, generation=lease.generation)

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
