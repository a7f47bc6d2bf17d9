"""The janitor: on a schedule, takes back what belongs to workflows that are closed or gone."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from itertools import chain
from typing import Any, TypeVar

from temporalio import workflow
from temporalio.common import VersioningBehavior, WorkflowIDReusePolicy
from temporalio.exceptions import ActivityError, ApplicationError, WorkflowAlreadyStartedError
from temporalio.workflow import ActivityConfig

from activities.hosting import HostActivities
from activities.upgrading import UpgradeActivities
from activities.upkeep import UpkeepActivities
from schemas.episode import workflow_id
from schemas.host import Hosts, HostsOrder, host_queue
from schemas.slice import Summary
from schemas.start import Tuning
from schemas.upgrade import UpgradeOrder, Upgrades
from schemas.upkeep import (
    Abandoned,
    Discard,
    Discarded,
    Hosted,
    HostLook,
    InspectOrder,
    UpkeepOrder,
    UpkeepReport,
    UpkeepSummary,
)
from workflows.finish import finish
from workflows.hosts import was_not_taken_up
from workflows.options import RETRY, on_queue

ParamT = TypeVar("ParamT")
ResultT = TypeVar("ResultT")

UPGRADES = "upgrades"
"""The patch by which a pass looks after episodes whose version has no worker."""

TELLS = "tells problems"
"""The patch by which a pass that could not do all says so, and does not fail: what it has seen is not lost."""

BETWEEN = 2
"""Intervals that count at most between two passes: later than that, the stack was down meanwhile."""

A_PASS_S = 120.0
"""How long the pass before may have taken; so much counts between two passes however short the interval is."""


@workflow.defn(name="Janitor", versioning_behavior=VersioningBehavior.AUTO_UPGRADE)
class JanitorWorkflow:
    """One pass. Each abandoned episode is reclaimed by a workflow of its own, so that none holds up another.

    Every host is looked at by itself; one that does not answer holds up nothing but its own sandboxes. A pass that
    could not do all does the rest and says so; the next one tries again.
    """

    @workflow.run
    async def run(self, order: UpkeepOrder) -> UpkeepSummary:
        options = _options(order.tuning)
        wanted = HostsOrder(outage_s=order.tuning.outage_s)
        hosts = await workflow.execute_activity_method(HostActivities.hosts, wanted, **options)
        looks = await asyncio.gather(*(_look(host, order) for host in hosts.there))
        report = await workflow.execute_activity_method(UpkeepActivities.inspect, _seen(order, looks), **options)
        started = [one.spec.episode_id for one in report.abandoned if await _start_reclaim(one)]
        by_host = {host: [one for one in report.discard if one.host == host] for host in hosts.there}
        ended = await asyncio.gather(*(_discard(host, unwanted, order) for host, unwanted in by_host.items()))
        upgrades = await _upgrade(report, order) if report.elsewhere and workflow.patched(UPGRADES) else Upgrades()
        return _summed_up(tuple(started), hosts, report, looks, ended, upgrades)


def _summed_up(
    started: tuple[str, ...],
    hosts: Hosts,
    report: UpkeepReport,
    looks: Sequence[HostLook],
    ended: Sequence[Discarded],
    upgrades: Upgrades,
) -> UpkeepSummary:
    """What the pass has done, and what it could not do."""
    told = [
        report.problems,
        upgrades.problems,
        *(look.problems for look in looks),
        *(one.problems for one in ended),
    ]
    problems = tuple(chain.from_iterable(told))
    if problems and not workflow.patched(TELLS):
        raise ApplicationError("; ".join(problems), type="EnvironmentFailed")
    return UpkeepSummary(
        reclaimed=started,
        terminated=(*report.terminated, *upgrades.terminated),
        discarded=sum(look.discarded for look in looks) + sum(one.discarded for one in ended),
        swept=sum(look.swept for look in looks),
        lost_hosts=hosts.lost,
        moved=upgrades.moved,
        stranded=upgrades.stranded,
        problems=problems,
        at_s=workflow.now().timestamp(),
    )


async def _upgrade(report: UpkeepReport, order: UpkeepOrder) -> Upgrades:
    wanted = UpgradeOrder(elsewhere=report.elsewhere, waited_s=_waited_so_far(order), limit_s=order.stranded_s)
    options = _options(order.tuning)
    try:
        return await workflow.execute_activity_method(UpgradeActivities.upgrade, wanted, **options)
    except ActivityError as error:
        return Upgrades(problems=(f"versions: {error.cause}",))


def _waited_so_far(order: UpkeepOrder) -> dict[str, float]:
    told = workflow.has_last_completion_result()
    last = workflow.get_last_completion_result(UpkeepSummary) if told else None
    return waited_s(last, order, workflow.now().timestamp())


def waited_s(last: UpkeepSummary | None, order: UpkeepOrder, now_s: float) -> dict[str, float]:
    """For how long each stranded episode has waited, as passes saw it: a stack that is down costs no time."""
    if last is None:
        return {}
    since = min(max(0.0, now_s - last.at_s), max(A_PASS_S, BETWEEN * order.interval_s))
    return {one.episode_id: one.waited_s + since for one in last.stranded}


def _seen(order: UpkeepOrder, looks: Sequence[HostLook]) -> InspectOrder:
    unowned = tuple(one for look in looks for one in look.unowned)
    return InspectOrder(order=order, unowned=unowned, all_seen=all(look.seen for look in looks))


def _options(tuning: Tuning) -> ActivityConfig:
    return ActivityConfig(
        start_to_close_timeout=timedelta(minutes=5),
        heartbeat_timeout=timedelta(seconds=tuning.heartbeat_s),
        schedule_to_close_timeout=timedelta(minutes=10),
        retry_policy=RETRY,
    )


async def _look(host: str, order: UpkeepOrder) -> HostLook:
    try:
        return await _by_host(host, order.tuning, HostActivities.look, order)
    except ActivityError as error:
        return HostLook(seen=False, problems=(_silence(host, error),))


async def _discard(host: str, unwanted: Sequence[Hosted], order: UpkeepOrder) -> Discarded:
    if not unwanted:
        return Discarded()
    discard = Discard(sandboxes=tuple(one.record.ref for one in unwanted))
    try:
        return await _by_host(host, order.tuning, HostActivities.discard, discard)
    except ActivityError as error:
        return Discarded(problems=(_silence(host, error),))


async def _by_host(
    host: str, tuning: Tuning, step: Callable[[Any, ParamT], Awaitable[ResultT]], request: ParamT
) -> ResultT:
    """A pass does not wait for a host: the next one finds what this one has missed."""
    queue = host_queue(workflow.info().task_queue, host)
    return await workflow.execute_activity_method(
        step, request, **on_queue(_options(tuning), queue, tuning.start_s)
    )


def _silence(host: str, error: ActivityError) -> str:
    why = "does not take up work" if was_not_taken_up(error) else str(error.cause)
    return f"the host {host}: {why}"


async def _start_reclaim(abandoned: Abandoned) -> bool:
    """Start it, unless it is at work already, or the episode itself has started after all.

    A trial that never ran is reclaimed under the episode's own workflow id, once: whichever of the two starts
    first is the one there is.
    """
    generation = abandoned.lease.generation if abandoned.lease else 0
    reclaim = f"reclaim/{abandoned.spec.episode_id}/{generation}"
    once, again = WorkflowIDReusePolicy.REJECT_DUPLICATE, WorkflowIDReusePolicy.ALLOW_DUPLICATE
    try:
        await workflow.start_child_workflow(
            ReclaimWorkflow.run,
            abandoned,
            id=workflow_id(abandoned.spec.episode_id) if abandoned.never_ran else reclaim,
            id_reuse_policy=once if abandoned.never_ran else again,
            parent_close_policy=workflow.ParentClosePolicy.ABANDON,
        )
    except WorkflowAlreadyStartedError:
        return False
    return True


@workflow.defn(name="Reclaim", versioning_behavior=VersioningBehavior.AUTO_UPGRADE)
class ReclaimWorkflow:
    """Does for one abandoned episode what its own workflow cannot do any more."""

    @workflow.run
    async def run(self, abandoned: Abandoned) -> Summary:
        return await finish(
            abandoned.spec,
            abandoned.lease,
            abandoned.ending,
            abandoned.tuning,
            settle=False,
            timings={},
            place=abandoned.place,
        )
