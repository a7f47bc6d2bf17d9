"""Versions of the workflows' code on the server: each episode goes on with the one that it began with, while that
has a worker. Activities on the queues of hosts have no version: every worker of a host does them for all."""

import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Set
from contextlib import asynccontextmanager, contextmanager
from datetime import timedelta
from hashlib import sha256

from google.protobuf.field_mask_pb2 import FieldMask
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.deployment.v1 import WorkerDeploymentInfo
from temporalio.api.enums.v1 import TaskQueueKind, TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflow.v1 import WorkflowExecutionOptions
from temporalio.api.workflowservice.v1 import (
    DescribeTaskQueueRequest,
    DescribeWorkerDeploymentRequest,
    SetWorkerDeploymentCurrentVersionRequest,
    UpdateWorkflowExecutionOptionsRequest,
)
from temporalio.client import Client, WorkflowHistory
from temporalio.common import OneTimeVersioningOverride, WorkerDeploymentVersion
from temporalio.service import RPCError, RPCStatusCode
from tenacity import AsyncRetrying, retry_if_exception, stop_after_delay, wait_random_exponential

from schemas.world import Owner
from tiltyard.errors import EnvironmentFailed
from workers.rounds import repeating

log = logging.getLogger(__name__)

GONE = timedelta(seconds=90)
"""A worker asks for tasks at least once in a minute; one that has not for so long is gone."""

LOOK_S = 10.0
"""Between two looks at which version is the current one."""

REGISTERED = timedelta(minutes=1)
"""How long the server may take to notice a worker of a new version, or to restart."""


def deployment_version(task_queue: str, build: str) -> WorkerDeploymentVersion:
    """A version as the server knows it: of a deployment, which is a task queue. Its name may hold no dot."""
    name = task_queue.replace(".", "-")
    if name != task_queue:
        name += f"-{sha256(task_queue.encode()).hexdigest()[:8]}"
    return WorkerDeploymentVersion(deployment_name=name, build_id=build)


async def polled(client: Client, task_queue: str, gone: timedelta = GONE) -> Set[str]:
    """Builds of which a worker has asked for tasks lately; among them the empty one, of workers without a version.

    Raises ``RPCError``.
    """
    request = DescribeTaskQueueRequest(
        namespace=client.namespace,
        task_queue=TaskQueue(name=task_queue, kind=TaskQueueKind.TASK_QUEUE_KIND_NORMAL),
        task_queue_type=TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW,
    )
    found = await client.workflow_service.describe_task_queue(request)
    since = time.time() - gone.total_seconds()
    return {one.deployment_options.build_id for one in found.pollers if one.last_access_time.seconds >= since}


class TemporalVersions:
    """The driver of the ``Versions`` port: versions of one task queue, of which ``build`` is ours.

    ``problem`` says why our code cannot go on with a history. A worker that has not asked for tasks for ``gone`` is
    gone.
    """

    def __init__(
        self,
        client: Client,
        task_queue: str,
        build: str,
        problem: Callable[[WorkflowHistory], Awaitable[str]],
        gone: timedelta = GONE,
    ) -> None:
        self._client, self._task_queue, self._gone = client, task_queue, gone
        self._problem = problem
        self._refused: dict[str, str] = {}
        self.ours = deployment_version(task_queue, build)

    async def served(self) -> Set[str]:
        with _answered():
            return {self.ours.build_id, *await polled(self._client, self._task_queue, self._gone)}

    async def move(self, owner: Owner) -> str:
        """A one-time override: pending activities come along, and the next workflow task pins it to ours."""
        with _answered():
            run_id = (await self._client.get_workflow_handle(owner.workflow_id).describe()).run_id or ""
            reason = await self._reason(owner.workflow_id, run_id)
            if not reason:
                options = self._moving(owner.workflow_id, run_id)
                await self._client.workflow_service.update_workflow_execution_options(options)
                log.info("%s goes on with the version %s", owner.workflow_id, self.ours.build_id)
        return reason

    async def _reason(self, workflow_id: str, run_id: str) -> str:
        """A run that was refused once is not replayed again: nobody adds to it what would make it fit."""
        if run_id not in self._refused:
            history = await self._client.get_workflow_handle(workflow_id, run_id=run_id).fetch_history()
            if not (reason := await self._problem(history)):
                return ""
            self._refused[run_id] = reason
        return self._refused[run_id]

    def _moving(self, workflow_id: str, run_id: str) -> UpdateWorkflowExecutionOptionsRequest:
        override = OneTimeVersioningOverride(self.ours)._to_proto()
        return UpdateWorkflowExecutionOptionsRequest(
            namespace=self._client.namespace,
            workflow_execution=WorkflowExecution(workflow_id=workflow_id, run_id=run_id),
            workflow_execution_options=WorkflowExecutionOptions(versioning_override=override),
            update_mask=FieldMask(paths=["versioning_override"]),
        )

    async def become_current(self) -> bool:
        """Have episodes begin with our version from now on, unless the current one came after it and has a worker.
        Whether ours is the current one now. A worker of ours must be there; the server may not know it yet.

        Raises ``EnvironmentFailed`` when the server does not answer, or knows no versions.
        """
        with _answered():
            async for attempt in _until_registered():
                with attempt:
                    return await self._become_current()
        raise AssertionError("retrying ends with an answer or an error")

    async def _become_current(self) -> bool:
        info = await self._deployment()
        current, ours = info.routing_config.current_deployment_version.build_id, self.ours.build_id
        if current == ours:
            return True
        since = {one.deployment_version.build_id: one.create_time.ToNanoseconds() for one in info.version_summaries}
        if ours not in since:
            raise _NotRegistered
        if current and since[ours] <= since.get(current, 0) and current in await self.served():
            return False
        await self._client.workflow_service.set_worker_deployment_current_version(
            SetWorkerDeploymentCurrentVersionRequest(
                namespace=self._client.namespace, deployment_name=self.ours.deployment_name, build_id=ours
            )
        )
        log.info("episodes begin with the version %s of the workflows' code from now on", ours)
        return True

    async def _deployment(self) -> WorkerDeploymentInfo:
        request = DescribeWorkerDeploymentRequest(
            namespace=self._client.namespace, deployment_name=self.ours.deployment_name
        )
        found = await self._client.workflow_service.describe_worker_deployment(request)
        return found.worker_deployment_info


class _NotRegistered(Exception):
    """The server has not heard yet of a worker of ours."""


REFUSALS = (
    *(RPCStatusCode.UNIMPLEMENTED, RPCStatusCode.PERMISSION_DENIED, RPCStatusCode.UNAUTHENTICATED),
    RPCStatusCode.INVALID_ARGUMENT,
)
"""Answers that another attempt does not change."""


def _may_pass(error: BaseException) -> bool:
    """A server that restarts is outwaited too."""
    refused = isinstance(error, RPCError) and error.status in REFUSALS
    return isinstance(error, (_NotRegistered, RPCError)) and not refused


def _until_registered() -> AsyncRetrying:
    return AsyncRetrying(
        retry=retry_if_exception(_may_pass),
        wait=wait_random_exponential(multiplier=0.05, max=1),
        stop=stop_after_delay(REGISTERED),
        reraise=True,
    )


@contextmanager
def _answered() -> Iterator[None]:
    try:
        yield
    except _NotRegistered:
        raise EnvironmentFailed(
            "the Temporal server does not notice that this worker asks for tasks",
            fix="if it has as many versions as it keeps, raise matching.maxVersionsInDeployment",
        ) from None
    except RPCError as error:
        if error.status is RPCStatusCode.UNIMPLEMENTED:
            raise EnvironmentFailed(
                "the Temporal server knows no versions of workers", fix="use Temporal Server 1.32 or later"
            ) from error
        raise EnvironmentFailed(f"the Temporal server does not answer: {error.message}") from error


@asynccontextmanager
async def keeping_current(versions: TemporalVersions, every_s: float = LOOK_S) -> AsyncIterator[None]:
    """Become the current version before the body, and again while it runs: when the worker of a later one has gone
    nobody else would."""
    await versions.become_current()
    async with repeating(versions.become_current, every_s, "which version is the current one cannot be told"):
        yield
