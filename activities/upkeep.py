"""What the janitor sees: leases and open trials, and whether their workflows live."""

from collections.abc import AsyncIterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from itertools import islice

from temporalio import activity

from activities.attempt import attempt, kept
from schemas.episode import End, EpisodeSpec, workflow_id
from schemas.host import Permit
from schemas.sandbox import SandboxRecord
from schemas.slice import Ending, LeaseRef
from schemas.start import SandboxPlace
from schemas.upgrade import Elsewhere
from schemas.upkeep import Abandoned, Hosted, InspectOrder, UpkeepOrder, UpkeepReport
from schemas.world import Lease, Owner
from tiltyard.episode.delivery import Reconciler
from tiltyard.ports import Chains, ChainState, Records, Versions, World

ENDINGS: dict[ChainState, Ending] = {
    ChainState.TERMINATED: Ending.of(End.TERMINATED, "the workflow was terminated"),
    ChainState.TIMED_OUT: Ending.of(End.TERMINATED, "the workflow timed out"),
    ChainState.CANCELLED: Ending.of(End.CANCELLED, "the workflow was cancelled"),
    ChainState.FAILED: Ending.of(End.ENVIRONMENT_ERROR, "the workflow failed"),
    ChainState.COMPLETED: Ending.of(End.ENVIRONMENT_ERROR, "the workflow ended without an outcome"),
    ChainState.GONE: Ending.of(End.TERMINATED, "the workflow is gone"),
}
"""How an episode ended whose workflow did not say so itself."""


MOST_UNSERVED = 200
"""Episodes without a worker of their version that one pass deals with: what it reports must fit into a history."""


@dataclass(frozen=True)
class _Noted:
    """What a look at workflows comes upon: those that it terminated, and episodes of versions that are not
    ``served``; none where that is not known."""

    served: Set[str] | None
    terminated: list[str] = field(default_factory=list)
    elsewhere: dict[str, Elsewhere] = field(default_factory=dict)


class UpkeepActivities:
    """Looks for abandoned episodes. Only what ``cluster`` and ``temporal_namespace`` own is ours to judge.

    ``versions`` are those of the workflows' code; none for a worker without a version.
    """

    def __init__(
        self,
        world: World,
        reconciler: Reconciler,
        records: Records,
        chains: Chains,
        cluster: str,
        temporal_namespace: str,
        versions: Versions | None = None,
    ) -> None:
        self._world = world
        self._reconciler = reconciler
        self._records = records
        self._chains = chains
        self._place = (cluster, temporal_namespace)
        self._versions = versions

    @activity.defn
    async def inspect(self, order: InspectOrder) -> UpkeepReport:
        async with attempt():
            return await self._inspect(order.order, order)

    async def _inspect(self, order: UpkeepOrder, seen: InspectOrder) -> UpkeepReport:
        """What needs a service or a host that is away waits for the next pass, and nothing else waits with it."""
        leases = await self._reconciler.until_reply(self._world.leases)
        mine = [lease for lease in leases if (lease.owner.cluster, lease.owner.temporal_namespace) == self._place]
        problems: list[str] = []
        noted = _Noted(await kept(problems, self._versions.served()) if self._versions else None)
        found: list[Abandoned] = []
        unrecorded: list[Lease] = []
        async for spec, lease, ending in self._without_workflow(mine, order, noted):
            if spec is None and lease is not None:
                unrecorded.append(lease)
            elif spec is not None and (spec.sandbox is None or seen.all_seen):
                found.append(await self._abandoned(spec, lease, ending, order, seen.unowned))
        reclaimed = {one.spec.episode_id for one in found}
        await kept(problems, self._quarantine(unrecorded))
        return UpkeepReport(
            abandoned=tuple(found),
            discard=await self._unwanted(seen.unowned, reclaimed, order, noted),
            terminated=tuple(noted.terminated),
            elsewhere=_some(noted.elsewhere, problems),
            problems=tuple(problems),
        )

    async def _without_workflow(
        self, mine: Sequence[Lease], order: UpkeepOrder, noted: _Noted
    ) -> AsyncIterator[tuple[EpisodeSpec | None, Lease | None, Ending]]:
        """Leases, and open trials without one, whose workflow is closed or gone; no spec: the trial of the lease is
        not recorded."""
        for lease in mine:
            ending = await self._ending(lease.owner, order, noted)
            if ending is not None:
                yield await self._records.spec(lease.episode_id), lease, ending
        leased = {lease.episode_id for lease in mine}
        for spec in await self._records.unfinished(timedelta(seconds=order.grace_s)):
            if spec.episode_id not in leased:
                ending = await self._ending(self._owner_of(spec), order, noted)
                if ending is not None:
                    yield spec, None, ending

    async def _unwanted(
        self, unowned: Sequence[Hosted], reclaimed: Set[str], order: UpkeepOrder, noted: _Noted
    ) -> tuple[Hosted, ...]:
        """Sandboxes whose workflow is closed or gone, but for those that a reclaim collects first.

        Those of an examination are the grading workflow's.
        """
        others = [
            one for one in unowned if one.record.episode_id not in reclaimed or not _is_episodes_own(one.record)
        ]
        return tuple([one for one in others if await self._ending(one.record.owner, order, noted) is not None])

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

    async def _abandoned(
        self,
        spec: EpisodeSpec,
        lease: Lease | None,
        ending: Ending,
        order: UpkeepOrder,
        unowned: Sequence[Hosted],
    ) -> Abandoned:
        """What its own workflow still says of sandboxes that were given up goes into the trace."""
        ref = LeaseRef(namespace=lease.namespace, generation=lease.generation) if lease else None
        owner = lease.owner if lease else self._owner_of(spec)
        never_ran = lease is None and ending == ENDINGS[ChainState.GONE]
        told = await self._chains.holding(owner) if spec.sandbox is not None and not never_ran else None
        place = told.place if told is not None else SandboxPlace()
        has = (one for one in unowned if _is_episodes_own(one.record) and one.record.episode_id == spec.episode_id)
        if (last := max(has, key=lambda one: one.record.ref.incarnation, default=None)) is not None:
            there = {"sandbox": last.record.ref, "permit": Permit(host=last.host), "state": "there"}
            place = place.model_copy(update=there)
        return Abandoned(spec=spec, lease=ref, ending=ending, tuning=order.tuning, never_ran=never_ran, place=place)

    async def _ending(self, owner: Owner, order: UpkeepOrder, noted: _Noted) -> Ending | None:
        chain = await self._chains.describe(owner)
        if chain.state is not ChainState.RUNNING:
            return _ended(chain.state, chain.reason)
        if chain.failed_attempts < order.stuck_attempts:
            self._note_version(owner, chain.version, noted)
            return None
        why = f"its task failed {chain.failed_attempts} times"
        await self._chains.terminate(owner, why)
        noted.terminated.append(owner.workflow_id)
        return _ended(ChainState.TERMINATED, why)

    def _note_version(self, owner: Owner, version: str, noted: _Noted) -> None:
        if version and noted.served is not None and version not in noted.served:
            episode_id = owner.workflow_id.removeprefix(workflow_id(""))
            noted.elsewhere[episode_id] = Elsewhere(episode_id=episode_id, owner=owner, version=version)


def _some(elsewhere: Mapping[str, Elsewhere], problems: list[str]) -> tuple[Elsewhere, ...]:
    """As many as one pass deals with, always the same first. How many are left is a problem."""
    if (left := len(elsewhere) - MOST_UNSERVED) > 0:
        problems.append(f"versions: {left} more episodes have no worker of theirs, and wait until these are done")
    return tuple(islice(elsewhere.values(), MOST_UNSERVED))


def _ended(state: ChainState, reason: str) -> Ending:
    ending = ENDINGS[state]
    return Ending.of(ending.end, f"{ending.reason}: {reason}") if reason else ending


def _is_episodes_own(record: SandboxRecord) -> bool:
    """Whether the agent's commands ran in it; those of an examination have other names."""
    return record.ref.name == record.episode_id
