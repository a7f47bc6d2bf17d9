"""What an open episode is failing at, as its workflow's description tells it: steps that are tried again."""

from temporalio.api.workflow.v1 import PendingActivityInfo
from temporalio.client import WorkflowExecutionDescription

from schemas.status import Failing

STEPS = {"run_slice": "turns", "find_permit": "provision"}
"""Names of steps as the phases call them; the others are called by their own."""

MAX_WHY = 500
"""Characters of a reason."""


def failing(found: WorkflowExecutionDescription) -> tuple[Failing, ...]:
    """Each step that has failed and is not done yet."""
    return tuple(_failing(one) for one in found.raw_description.pending_activities if one.HasField("last_failure"))


def _failing(one: PendingActivityInfo) -> Failing:
    failure, name = one.last_failure, one.activity_type.name
    why = failure.message or failure.application_failure_info.type or "no reason was given"
    return Failing(step=STEPS.get(name, name), attempt=one.attempt, why=why[:MAX_WHY])
