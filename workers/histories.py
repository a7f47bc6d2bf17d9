"""Histories of a cluster's workflows, replayed against the code at hand: whether it may be deployed among them."""

import json
import re
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from temporalio.api.enums.v1 import EventType
from temporalio.client import Client, WorkflowHistory
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.runtime import Runtime, TelemetryConfig
from temporalio.service import RPCError, RPCStatusCode
from temporalio.worker import Replayer, WorkflowRunner

from tiltyard.errors import EnvironmentFailed

KINDS = ("Episode", "Janitor", "Reclaim")
"""Types of workflows that are ours."""

CLOSING = ("COMPLETED", "FAILED", "CANCELED", "TERMINATED", "TIMED_OUT", "CONTINUED_AS_NEW")
"""How the last event of a closed run may be called."""

_MESSAGE = re.compile(r'message: "((?:[^"\\]|\\.)*)"')
_MACHINE = re.compile(r"^\d+@.*|.*:[0-9a-f]{32}$")
MAX_PROBLEM = 500


@dataclass(frozen=True)
class Run:
    """One run of a workflow, as visibility lists it."""

    workflow_id: str
    run_id: str
    kind: str
    running: bool


async def listed(client: Client, task_queue: str, kind: str, *, running: bool, limit: int | None) -> list[Run]:
    """Runs of one kind that are running, or are closed, the newest first.

    Visibility is eventually consistent: what has started or ended within the last second or so may be missing.
    Raises ``EnvironmentFailed`` when the server does not answer.
    """
    state = "=" if running else "!="
    query = f"WorkflowType = '{kind}' AND TaskQueue = '{task_queue}' AND ExecutionStatus {state} 'Running'"
    try:
        return [
            Run(workflow_id=one.id, run_id=one.run_id, kind=kind, running=running)
            async for one in client.list_workflows(query, limit=limit)
        ]
    except RPCError as error:
        raise EnvironmentFailed(f"the Temporal server does not list workflows: {error.message}") from error


async def histories_of(client: Client, runs: Sequence[Run]) -> AsyncIterator[WorkflowHistory]:
    """The whole history of each run, but for those that the server has forgotten meanwhile."""
    for run in runs:
        try:
            yield await client.get_workflow_handle(run.workflow_id, run_id=run.run_id).fetch_history()
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise EnvironmentFailed(f"the Temporal server gives no history: {error.message}") from error


async def problem_of(history: WorkflowHistory, workflows: Sequence[type], runner: WorkflowRunner) -> str:
    """Why these workflows cannot go on with this history: the first thing that they would do otherwise, or cannot
    read. Empty where they can."""

    async def alone() -> AsyncIterator[WorkflowHistory]:
        yield history

    (problem,) = [problem async for _, problem in problems_of(alone(), workflows, runner)]
    return problem


async def problems_of(
    histories: AsyncIterator[WorkflowHistory], workflows: Sequence[type], runner: WorkflowRunner
) -> AsyncIterator[tuple[WorkflowHistory, str]]:
    """The same of each of many, in their order."""
    replayer = Replayer(
        workflows=list(workflows),
        data_converter=pydantic_data_converter,
        workflow_runner=runner,
        runtime=_quiet(),
    )
    async with replayer.workflow_replay_iterator(histories) as results:
        async for one in results:
            yield one.history, told(str(one.replay_failure)) if one.replay_failure else ""


@lru_cache(maxsize=1)
def _quiet() -> Runtime:
    """A replay that fails is told by us, not in the log."""
    return Runtime(telemetry=TelemetryConfig(logging=None, metrics=None))


def told(failure: str) -> str:
    """What a failed replay says, without how the SDK wraps it: its message, and those of its causes."""
    said = [json.loads(f'"{text}"', strict=False) for text in _MESSAGE.findall(failure) if text]
    text = ": ".join(dict.fromkeys(said)) or failure
    text = text.replace("[TMPRL1100] Nondeterminism error: ", "").replace("\n", " ")
    return re.sub(r" +For further information visit \S+", "", text)[:MAX_PROBLEM]


def document_of(history: WorkflowHistory) -> dict[str, Any]:
    """A history to keep in a file, without what belongs to the machine that it ran on."""
    return {"workflow_id": history.workflow_id, "history": scrubbed(json.loads(history.to_json()))}


def read_document(document: dict[str, Any]) -> WorkflowHistory:
    """The history of ``document_of``."""
    return WorkflowHistory.from_json(document["workflow_id"], document["history"])


def scrubbed(value: object) -> object:
    """Without identities of processes and stack traces."""
    if isinstance(value, dict):
        return {
            key: "" if key == "stackTrace" else "recorder" if key == "identity" else scrubbed(inner)
            for key, inner in value.items()
        }
    if isinstance(value, list):
        return [scrubbed(inner) for inner in value]
    return _MACHINE.sub("recorder", value) if isinstance(value, str) else value


def run_of(history: WorkflowHistory) -> Run:
    """The run that a history is of, as far as the history tells."""
    last = EventType.Name(history.events[-1].event_type)
    started = history.events[0].workflow_execution_started_event_attributes
    return Run(
        workflow_id=history.workflow_id,
        run_id=history.run_id,
        kind=started.workflow_type.name,
        running=last.removeprefix("EVENT_TYPE_WORKFLOW_EXECUTION_") not in CLOSING,
    )
