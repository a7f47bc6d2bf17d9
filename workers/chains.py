"""Temporal's word on workflows: the driver of the ``Chains`` port."""

from datetime import timedelta

from temporalio.api.enums.v1 import VersioningBehavior
from temporalio.api.workflow.v1 import WorkflowExecutionVersioningInfo
from temporalio.client import (
    Client,
    WorkflowExecutionDescription,
    WorkflowExecutionStatus,
    WorkflowHistoryEventFilterType,
    WorkflowQueryFailedError,
)
from temporalio.service import RPCError, RPCStatusCode

from schemas.status import SandboxHolding
from schemas.world import Owner
from tiltyard.errors import EnvironmentFailed
from tiltyard.ports import Chain, ChainState

STATES: dict[WorkflowExecutionStatus, ChainState] = {
    WorkflowExecutionStatus.RUNNING: ChainState.RUNNING,
    WorkflowExecutionStatus.CONTINUED_AS_NEW: ChainState.RUNNING,
    WorkflowExecutionStatus.COMPLETED: ChainState.COMPLETED,
    WorkflowExecutionStatus.FAILED: ChainState.FAILED,
    WorkflowExecutionStatus.CANCELED: ChainState.CANCELLED,
    WorkflowExecutionStatus.TERMINATED: ChainState.TERMINATED,
    WorkflowExecutionStatus.TIMED_OUT: ChainState.TIMED_OUT,
}
"""Temporal's states as ours; a state that we do not know is a live one, which the janitor leaves alone."""

ANSWER = timedelta(seconds=10)
"""How long an episode has to say where its sandbox is."""


class TemporalChains:
    """Describes chains by workflow id: describing a stored run id would call a live chain continued-as-new."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def describe(self, owner: Owner) -> Chain:
        try:
            found = await self._client.get_workflow_handle(owner.workflow_id).describe()
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                return Chain(ChainState.GONE)
            raise EnvironmentFailed(f"the Temporal server does not answer: {error}") from error
        info = found.raw_description.workflow_execution_info
        if owner.first_run_id and info.first_run_id != owner.first_run_id:
            return Chain(ChainState.GONE)
        state = STATES.get(found.status, ChainState.RUNNING) if found.status else ChainState.RUNNING
        attempts = found.raw_description.pending_workflow_task.attempt
        reason = await self._why_terminated(found) if state is ChainState.TERMINATED else ""
        return Chain(state, attempts, pinned_build(info.versioning_info), reason)

    async def _why_terminated(self, found: WorkflowExecutionDescription) -> str:
        handle = self._client.get_workflow_handle(found.id, run_id=found.run_id)
        closing = WorkflowHistoryEventFilterType.CLOSE_EVENT
        try:
            events = [one async for one in handle.fetch_history_events(event_filter_type=closing)]
        except RPCError:
            return ""
        return events[-1].workflow_execution_terminated_event_attributes.reason if events else ""

    async def holding(self, owner: Owner) -> SandboxHolding | None:
        handle = self._client.get_workflow_handle(owner.workflow_id)
        try:
            told: SandboxHolding = await handle.query("sandbox", result_type=SandboxHolding, rpc_timeout=ANSWER)
        except (RPCError, WorkflowQueryFailedError):
            return None
        return told

    async def terminate(self, owner: Owner, reason: str) -> None:
        try:
            handle = self._client.get_workflow_handle(
                owner.workflow_id, first_execution_run_id=owner.first_run_id or None
            )
            await handle.terminate(reason=reason)
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise EnvironmentFailed(f"the Temporal server does not answer: {error}") from error


def pinned_build(info: WorkflowExecutionVersioningInfo) -> str:
    """The build that alone may have the workflow's next task; empty where the current one may, whichever it is."""
    override = info.versioning_override
    if override.HasField("one_time"):
        return override.one_time.target_deployment_version.build_id
    if override.HasField("pinned"):
        return override.pinned.version.build_id
    pinned = info.behavior == VersioningBehavior.VERSIONING_BEHAVIOR_PINNED and not override.auto_upgrade
    return info.deployment_version.build_id if pinned else ""
