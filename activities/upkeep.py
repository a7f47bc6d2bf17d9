"""What the janitor sees: leases and open trials, and whether their workflows live."""

from collections.abc import AsyncIterator, Awaitable, Sequence, Set
from datetime import timedelta
from functools import partial
from typing import TypeVar

from temporalio import activity

from activities.attempt import attempt
from activities.failures import MAX_MESSAGE
from schemas.episode import End, EpisodeSpec, workflow_id
from schemas.sandbox import SandboxRecord
from schemas.slice import Ending, LeaseRef
from schemas.upkeep import Abandoned, UpkeepOrder, UpkeepReport
from schemas.world import Lease, Owner
from tiltyard.episode.delivery import Reconciler
from tiltyard.errors import EnvironmentFailed
from tiltyard.ports import Chains, ChainState, Records, Sandboxes, World

ResultT = TypeVar("ResultT")

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
        """What needs a service that is away waits for the next pass, and nothing else waits with it."""
        leases = await self._reconciler.until_reply(self._world.leases)
        mine = [lease for lease in leases if (lease.owner.cluster, lease.owner.temporal_namespace) == self._place]
        problems: list[str] = []
        terminated: list[str] = []
        found: list[Abandoned] = []
        unrecorded: list[Lease] = []
        sandboxes = await _kept(problems, self._own_sandboxes())
        async for spec, lease, ending in self._without_workflow(mine, order, terminated):
            if spec is None and lease is not None:
                unrecorded.append(lease)
            elif spec is not None and (spec.sandbox is None or sandboxes is not None):
                found.append(_abandoned(spec, lease, ending, order, sandboxes or ()))
        reclaimed = {one.spec.episode_id for one in found}
        await _kept(problems, self._quarantine(unrecorded))
        discarded = await self._discard(sandboxes or (), reclaimed, order, terminated, problems)
        swept = await _kept(problems, self._sandboxes.sweep())
        return UpkeepReport(
            abandoned=tuple(found),
            terminated=tuple(terminated),
            discarded=discarded,
            swept=swept or 0,
            problems=tuple(problems),
        )

    async def _without_workflow(
        self, mine: Sequence[Lease], order: UpkeepOrder, terminated: list[str]
    ) -> AsyncIterator[tuple[EpisodeSpec | None, Lease | None, Ending]]:
        """Leases, and open trials without one, whose workflow is closed or gone; no spec: the trial of the lease is
        not recorded."""
        for lease in mine:
            ending = await self._ending(lease.owner, order, terminated)
            if ending is not None:
                yield await self._records.spec(lease.episode_id), lease, ending
        leased = {lease.episode_id for lease in mine}
        for spec in await self._records.unfinished(timedelta(seconds=order.grace_s)):
            if spec.episode_id not in leased:
                ending = await self._ending(self._owner_of(spec), order, terminated)
                if ending is not None:
                    yield spec, None, ending

    async def _own_sandboxes(self) -> tuple[SandboxRecord, ...]:
        records = await self._reconciler.until_reply(self._sandboxes.sandboxes)
        return tuple(one for one in records if (one.owner.cluster, one.owner.temporal_namespace) == self._place)

    async def _discard(
        self,
        sandboxes: Sequence[SandboxRecord],
        reclaimed: Set[str],
        order: UpkeepOrder,
        terminated: list[str],
        problems: list[str],
    ) -> int:
        """End sandboxes whose workflow is closed or gone, but for those that a reclaim collects first; how many.

        Those of an examination are the grading workflow's. One of which something was left is tried again.
        """
        discarded = 0
        for one in sandboxes:
            if one.episode_id in reclaimed and one.ref.name == one.episode_id:
                continue
            if await self._ending(one.owner, order, terminated) is not None:
                release = self._reconciler.until_reply(partial(self._sandboxes.release, one.ref))
                discarded += await _done(problems, release)
        return discarded

    async def _quarantine(self, unrecorded: Sequence[Lease]) -> None:
        """End leases of which no trial is recorded: there is nothing to grade, and nothing to trust."""
        for lease in unrecorded:
            place, why = (lease.namespace, lease.generation), "its episode is not recorded"
            await self._reconciler.until_reply(partial(self._world.seal, *place))
            await self._reconciler.until_reply(partial(self._world.quarantine, *place, why))

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


async def _kept(problems: list[str], step: Awaitable[ResultT]) -> ResultT | None:
    """What it gives; ``None``, with the problem noted, when a service failed it."""
    try:
        return await step
    except EnvironmentFailed as error:
        problems.append(f"{type(error).__name__}: {error}"[:MAX_MESSAGE])
        return None


async def _done(problems: list[str], step: Awaitable[None]) -> bool:
    """Whether it was done; the problem is noted where not."""
    before = len(problems)
    await _kept(problems, step)
    return len(problems) == before


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
