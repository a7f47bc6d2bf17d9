"""What the janitor sees: leases and open trials, and whether their workflows live."""

from collections.abc import Sequence, Set
from datetime import timedelta
from functools import partial

from temporalio import activity

from activities.attempt import attempt
from schemas.episode import End, EpisodeSpec, workflow_id
from schemas.sandbox import SandboxRecord
from schemas.slice import Ending, LeaseRef
from schemas.upkeep import Abandoned, UpkeepOrder, UpkeepReport
from schemas.world import Lease, Owner
from tiltyard.episode.delivery import Reconciler
from tiltyard.ports import Chains, ChainState, Records, Sandboxes, World

ENDINGS: dict[ChainState, Ending] = {
    ChainState.TERMINATED: Ending.of(End.TERMINATED, "the workflow was terminated"),
    ChainState.TIMED_OUT: Ending.of(End.TERMINATED, "the workflow timed out"),
    ChainState.CANCELLED: Ending.of(End.CANCELLED, "the workflow was cancelled"),
    ChainState.FAILED: Ending.of(End.ENVIRONMENT_ERROR, "the workflow failed"),
    ChainState.COMPLETED: Ending.of(End.ENVIRONMENT_ERROR, "the workflow ended without an outcome"),
    ChainState.GONE: Ending.of(End.TERMINATED, "the workflow is gone"),
}
"""How an episode ended whose workflow did not say so itself."""


class UpkeepActivities:
    """Looks for abandoned episodes. Only what ``cluster`` and ``temporal_namespace`` own is ours to judge."""

    def __init__(
        self,
        world: World,
        sandboxes: Sandboxes,
        reconciler: Reconciler,
        records: Records,
        chains: Chains,
        cluster: str,
        temporal_namespace: str,
    ) -> None:
        self._world = world
        self._sandboxes = sandboxes
        self._reconciler = reconciler
        self._records = records
        self._chains = chains
        self._place = (cluster, temporal_namespace)

    @activity.defn
    async def inspect(self, order: UpkeepOrder) -> UpkeepReport:
        async with attempt():
            return await self._inspect(order)

    async def _inspect(self, order: UpkeepOrder) -> UpkeepReport:
        leases = await self._reconciler.until_reply(self._world.leases)
        mine = [lease for lease in leases if (lease.owner.cluster, lease.owner.temporal_namespace) == self._place]
        sandboxes = await self._own_sandboxes()
        terminated: list[str] = []
        found: list[Abandoned] = []
        for lease in mine:
            ending = await self._ending(lease.owner, order, terminated)
            if ending is None:
                continue
            spec = await self._records.spec(lease.episode_id)
            if spec is None:
                await self._quarantine(lease)
            else:
                found.append(_abandoned(spec, lease, ending, order, sandboxes))
        leased = {lease.episode_id for lease in mine}
        for spec in await self._records.unfinished(timedelta(seconds=order.grace_s)):
            if spec.episode_id not in leased:
                ending = await self._ending(self._owner_of(spec), order, terminated)
                if ending is not None:
                    found.append(_abandoned(spec, None, ending, order, sandboxes))
        await self._discard(sandboxes, {one.spec.episode_id for one in found}, order, terminated)
        return UpkeepReport(abandoned=tuple(found), terminated=tuple(terminated))

    async def _own_sandboxes(self) -> tuple[SandboxRecord, ...]:
        records = await self._reconciler.until_reply(self._sandboxes.sandboxes)
        return tuple(one for one in records if (one.owner.cluster, one.owner.temporal_namespace) == self._place)

    async def _discard(
        self, sandboxes: Sequence[SandboxRecord], reclaimed: Set[str], order: UpkeepOrder, terminated: list[str]
    ) -> None:
        """End sandboxes whose workflow is closed or gone, but for those that a reclaim collects first."""
        for one in sandboxes:
            if one.episode_id in reclaimed and one.ref.name == one.episode_id:
                continue
            if await self._ending(one.owner, order, terminated) is not None:
                await self._reconciler.until_reply(partial(self._sandboxes.release, one.ref))

    async def _quarantine(self, lease: Lease) -> None:
        """End a lease of which no trial is recorded: there is nothing to grade, and nothing to trust."""
        place = lease.namespace, lease.generation
        await self._reconciler.until_reply(lambda: self._world.seal(*place))
        await self._reconciler.until_reply(lambda: self._world.quarantine(*place, "its episode is not recorded"))

    def _owner_of(self, spec: EpisodeSpec) -> Owner:
        """A planned trial's workflow; with no lease, no run of it is known."""
        cluster, namespace = self._place
        return Owner(
            cluster=cluster, temporal_namespace=namespace, workflow_id=workflow_id(spec.episode_id), first_run_id=""
        )

    async def _ending(self, owner: Owner, order: UpkeepOrder, terminated: list[str]) -> Ending | None:
        chain = await self._chains.describe(owner)
        if chain.state is not ChainState.RUNNING:
            return ENDINGS[chain.state]
        if chain.failed_attempts < order.stuck_attempts:
            return None
        await self._chains.terminate(owner, f"its task failed {chain.failed_attempts} times")
        terminated.append(owner.workflow_id)
        return ENDINGS[ChainState.TERMINATED]


def _abandoned(
    spec: EpisodeSpec,
    lease: Lease | None,
    ending: Ending,
    order: UpkeepOrder,
    sandboxes: Sequence[SandboxRecord],
) -> Abandoned:
    ref = LeaseRef(namespace=lease.namespace, generation=lease.generation) if lease else None
    never_ran = lease is None and ending == ENDINGS[ChainState.GONE]
    sandbox = next((one.ref for one in sandboxes if one.ref.name == spec.episode_id), None)
    return Abandoned(spec=spec, lease=ref, ending=ending, tuning=order.tuning, never_ran=never_ran, sandbox=sandbox)
