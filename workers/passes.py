"""What the janitor's last pass has told."""

from temporalio.client import Client, ScheduleActionExecutionStartWorkflow, WorkflowExecutionStatus
from temporalio.service import RPCError, RPCStatusCode

from schemas.upkeep import UpkeepSummary
from tiltyard.errors import EnvironmentFailed
from workers.settings import Settings
from workflows.janitor import JanitorWorkflow

LOOKED_AT = 5
"""The newest passes, among which is one that has told what it did: the last may be under way, others cut off."""


def janitor_of(settings: Settings) -> str:
    """The schedule of the janitor's passes."""
    return f"janitor/{settings.task_queue}"


async def last_pass(client: Client, settings: Settings) -> UpkeepSummary | None:
    """The newest pass that has told what it did and what it could not do; ``None`` where there is none lately.

    Raises ``EnvironmentFailed`` when the server does not answer.
    """
    try:
        found = await client.get_schedule_handle(janitor_of(settings)).describe()
        for one in reversed(found.info.recent_actions[-LOOKED_AT:]):
            if not isinstance(one.action, ScheduleActionExecutionStartWorkflow):
                continue
            run_id = one.action.first_execution_run_id
            handle = client.get_workflow_handle_for(JanitorWorkflow.run, one.action.workflow_id, run_id=run_id)
            if (await handle.describe()).status is WorkflowExecutionStatus.COMPLETED:
                return await handle.result()
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            return None
        raise EnvironmentFailed(f"the Temporal server does not answer: {error.message}") from error
    return None
