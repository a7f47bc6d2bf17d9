"""A workflow that does nothing but run activities that do nothing: what Temporal alone costs."""

from datetime import timedelta

from temporalio import activity, workflow


@activity.defn
async def nothing() -> None:
    """An activity without work."""


@workflow.defn
class EmptyActivities:
    """So many empty activities, one after the other."""

    @workflow.run
    async def run(self, count: int) -> None:
        for _ in range(count):
            await workflow.execute_activity(nothing, start_to_close_timeout=timedelta(minutes=1))
