"""Histories of a cluster's workflows, replayed against the code at hand: whether it may be deployed among them."""

import json
import re
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any

from temporalio.client import Client, WorkflowExecution, WorkflowExecutionStatus, WorkflowHistory
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.runtime import Runtime, TelemetryConfig
from temporalio.service import RPCError
from temporalio.worker import Replayer, WorkflowRunner

from tiltyard.errors import EnvironmentFailed

KINDS = ("Episode", "Janitor", "Reclaim")
"""Types of workflows that are ours."""

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
    closed: datetime | None


async def listed(client: Client, task_queue: str, *, running: bool, limit: int | None = None) -> AsyncIterator[Run]:
    """Runs of a task queue's workflows that are running, or are closed, the newest first.

    Visibility is eventually consistent: what has started or ended within the last second or so may be missing.
    Raises ``EnvironmentFailed`` when the server does not answer.
    """
    kinds = ", ".join(f"'{kind}'" for kind in KINDS)
    state = "=" if running else "!="
    query = f"WorkflowType IN ({kinds}) AND TaskQueue = '{task_queue}' AND ExecutionStatus {state} 'Running'"
    try:
        async for one in client.list_workflows(query, limit=limit):
            yield _run(one)
    except RPCError as error:
        raise EnvironmentFailed(f"the Temporal server does not list workflows: {error.message}") from error


def _run(one: WorkflowExecution) -> Run:
    return Run(
        workflow_id=one.id,
        run_id=one.run_id,
        kind=one.workflow_type,
        running=one.status is WorkflowExecutionStatus.RUNNING,
        closed=one.close_time,
    )


async def history_of(client: Client, workflow_id: str, run_id: str) -> WorkflowHistory | None:
    """The whole history of a run; ``None`` for one that the server has forgotten meanwhile."""
    try:
        return await client.get_workflow_handle(workflow_id, run_id=run_id).fetch_history()
    except RPCError as error:
        if error.status.name == "NOT_FOUND":
            return None
        raise EnvironmentFailed(f"the Temporal server does not give a history: {error.message}") from error


async def problem_of(history: WorkflowHistory, workflows: Sequence[type], runner: WorkflowRunner) -> str:
    """Why these workflows cannot go on with this history: the first thing that they would do otherwise, or cannot
    read. Empty where they can."""
    replayer = Replayer(
        workflows=list(workflows),
        data_converter=pydantic_data_converter,
        workflow_runner=runner,
        runtime=_quiet(),
    )
    done = await replayer.replay_workflow(history, raise_on_replay_failure=False)
    return "" if done.replay_failure is None else told(str(done.replay_failure))


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
