"""Resets of workflows, as an operator makes them."""

from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.enums.v1 import EventType
from temporalio.api.workflowservice.v1 import ResetWorkflowExecutionRequest
from temporalio.client import Client


async def runs_of(client: Client, workflow_id: str) -> list[str]:
    """The runs of a chain that continued as new, the first one first."""
    run_id, runs = (await client.get_workflow_handle(workflow_id).describe()).run_id, list[str]()
    while run_id:
        runs.insert(0, run_id)
        history = await client.get_workflow_handle(workflow_id, run_id=run_id).fetch_history()
        run_id = history.events[0].workflow_execution_started_event_attributes.continued_execution_run_id
    return runs


async def tasks_of(client: Client, workflow_id: str, run_id: str | None = None) -> list[int]:
    """The events that a reset can go back to: each forgets its workflow task and whatever came after."""
    history = await client.get_workflow_handle(workflow_id, run_id=run_id).fetch_history()
    completed = EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED
    return [event.event_id for event in history.events if event.event_type == completed]


async def reset(client: Client, workflow_id: str, event: int, run_id: str | None = None) -> str:
    """The run that goes on from there; the one before is terminated, with no cleanup."""
    run_id = run_id or (await client.get_workflow_handle(workflow_id).describe()).run_id
    answer = await client.workflow_service.reset_workflow_execution(
        ResetWorkflowExecutionRequest(
            namespace=client.namespace,
            workflow_execution=WorkflowExecution(workflow_id=workflow_id, run_id=run_id),
            reason="a test resets it",
            workflow_task_finish_event_id=event,
            request_id=f"reset-{workflow_id}-{run_id}-{event}",
        )
    )
    return str(answer.run_id)
