"""Hosts of sandboxes: which are lost, and what each of them has that nobody wants any more."""

import math
from collections.abc import Callable
from functools import partial
from typing import Protocol

from temporalio import activity

from activities.attempt import attempt, kept
from schemas.host import SANDBOXES, HostCheck, HostRecord, Hosts, HostsOrder, Permit, PermitOrder
from schemas.sandbox import SandboxRecord, SandboxRef
from schemas.upkeep import Discard, Discarded, Hosted, HostLook, UpkeepOrder
from tiltyard.episode.delivery import Reconciler
from tiltyard.errors import EnvironmentFailed
from tiltyard.ports import Chains, ChainState, Records, Sandboxes


class Permits(Protocol):
    """Permits for sandboxes that are on their way to this host: each stands for room there."""

    @property
    def idle(self) -> bool:
        """Whether it has room on offer that nobody has come for, so that nobody else waits for it."""
        ...

    async def grant(self, name: str) -> bool:
        """Grant a sandbox its permit, if there is room for it. Raises ``SandboxUnreachable``."""
        ...

    def redeem(self, name: str) -> None:
        """The sandbox is there, or will not be: its permit stands for no room any more."""
        ...


class HostActivities:
    """``host`` is the one that this worker serves. ``watched_s`` says for how many seconds it has been there to
    hear of others. Sandboxes of another cluster or namespace are not ours to judge."""

    def __init__(
        self,
        host: str,
        watched_s: Callable[[], float],
        permits: Permits,
        sandboxes: Sandboxes,
        reconciler: Reconciler,
        records: Records,
        chains: Chains,
        cluster: str,
        temporal_namespace: str,
    ) -> None:
        self._host, self._watched_s, self._permits = host, watched_s, permits
        self._sandboxes = sandboxes
        self._reconciler = reconciler
        self._records = records
        self._chains = chains
        self._place = (cluster, temporal_namespace)

    @activity.defn
    async def find_permit(self, order: PermitOrder) -> Permit:
        """This host, which has room. One that has lost it since passes the order on, by being tried again."""
        async with attempt():
            if order.now and not self._permits.idle:
                return Permit()
            if not await self._permits.grant(order.name):
                if order.now:
                    return Permit()
                raise EnvironmentFailed(f"the host {self._host} has no room any more")
            known = await self._records.hosts(activity.info().task_queue.removesuffix(f"/{SANDBOXES}"))
            others = [one for one in known if one.host != self._host and not one.forgotten]
            return Permit(host=self._host, alone=not others)

    @activity.defn
    async def is_lost(self, check: HostCheck) -> bool:
        """Whether a host is lost; one that was never heard of is, too."""
        async with attempt():
            known = {one.host: one for one in await self._records.hosts(activity.info().task_queue)}
            return self._lost(known.get(check.host), check.outage_s)

    @activity.defn
    async def hosts(self, order: HostsOrder) -> Hosts:
        """All hosts that have been heard of lately."""
        async with attempt():
            known = [one for one in await self._records.hosts(activity.info().task_queue) if not one.forgotten]
            lost = {one.host for one in known if self._lost(one, order.outage_s)}
            return Hosts(there=tuple(one.host for one in known if one.host not in lost), lost=tuple(sorted(lost)))

    def _lost(self, record: HostRecord | None, outage_s: float) -> bool:
        """When all were down, each has its time to come back from the moment that one is there again."""
        silent_s = math.inf if record is None else record.silent_s
        return min(silent_s, self._watched_s()) > outage_s

    @activity.defn
    async def look(self, order: UpkeepOrder) -> HostLook:
        """What this host has of workflows that are closed or gone. What a living one does not know, because it went
        on with another sandbox, is discarded; so is what belongs to no sandbox."""
        async with attempt():
            problems: list[str] = []
            found = await kept(problems, self._reconciler.until_reply(self._sandboxes.sandboxes))
            unowned, discarded = [], 0
            for one in found or ():
                if (one.owner.cluster, one.owner.temporal_namespace) != self._place:
                    continue
                chain = await self._chains.describe(one.owner)
                if chain.state is not ChainState.RUNNING or chain.failed_attempts >= order.stuck_attempts:
                    unowned.append(Hosted(host=self._host, record=one))
                elif await self._is_stale(one):
                    discarded += await self._release(one.ref, problems)
            swept = await kept(problems, self._reconciler.until_reply(self._sandboxes.sweep))
            return HostLook(
                seen=found is not None,
                unowned=tuple(unowned),
                discarded=discarded,
                swept=swept or 0,
                problems=tuple(problems),
            )

    async def _is_stale(self, one: SandboxRecord) -> bool:
        """Whether its episode goes on without it: on another host, or with none while it waits.

        It was seen here before the episode is asked, so it is none that was made since. Those of an examination are
        the grading workflow's."""
        if one.ref.name != one.episode_id:
            return False
        holding = await self._chains.holding(one.owner)
        if holding is None or holding.changing:
            return False
        place = holding.place
        return place.state == "given_up" or (place.sandbox, place.permit.host) != (one.ref, self._host)

    @activity.defn
    async def discard(self, order: Discard) -> Discarded:
        """End these sandboxes of this host. One of which something was left is tried again by the next pass."""
        async with attempt():
            problems: list[str] = []
            ended = [await self._release(sandbox, problems) for sandbox in order.sandboxes]
            return Discarded(discarded=sum(ended), problems=tuple(problems))

    async def _release(self, sandbox: SandboxRef, problems: list[str]) -> bool:
        """Whether it was done."""
        before = len(problems)
        await kept(problems, self._reconciler.until_reply(partial(self._sandboxes.release, sandbox)))
        return len(problems) == before
