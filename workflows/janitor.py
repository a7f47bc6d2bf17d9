"""The janitor: on a schedule, takes back what belongs to workflows that are closed or gone."""

from datetime import timedelta

from temporalio import workflow
from temporalio.common import WorkflowIDReusePolicy
from temporalio.exceptions import ApplicationError, WorkflowAlreadyStartedError

from activities.upkeep import UpkeepActivities
from schemas.episode import workflow_id
from schemas.slice import Summary
from schemas.upkeep import Abandoned, UpkeepOrder, UpkeepSummary
from workflows.finish import finish
from workflows.options import RETRY


@workflow.defn(name="Janitor")
class JanitorWorkflow:
    """One pass. Each abandoned episode is reclaimed by a workflow of its own, so that none holds up another.

    A pass that could not do all fails, after it has done the rest; the next one tries again.
    """

    @workflow.run
    async def run(self, order: UpkeepOrder) -> UpkeepSummary:
        report = await workflow.execute_activity_method(
            UpkeepActivities.inspect,
            order,
            start_to_close_timeout=timedelta(minutes=5),
            heartbeat_timeout=timedelta(seconds=order.tuning.heartbeat_s),
            schedule_to_close_timeout=timedelta(minutes=10),
            retry_policy=RETRY,
        )
        started = [one.spec.episode_id for one in report.abandoned if await _start_reclaim(one)]
        if report.problems:
            raise ApplicationError("; ".join(report.problems), type="EnvironmentFailed")
        return UpkeepSummary(
            reclaimed=tuple(started),
            terminated=report.terminated,
            discarded=report.discarded,
            swept=report.swept,
        )


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


@workflow.defn(name="Reclaim")
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
            sandbox=abandoned.sandbox,
        )
