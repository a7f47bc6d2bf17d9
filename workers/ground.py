"""The ground as commands use it: plan trials, start them, wait for outcomes, send messages."""

import asyncio
import secrets
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, Unpack

from temporalio.client import (
    Client,
    WorkflowExecutionDescription,
    WorkflowExecutionStatus,
    WorkflowFailureError,
    WorkflowHandle,
    WorkflowUpdateFailedError,
)
from temporalio.common import WorkflowIDReusePolicy
from temporalio.exceptions import FailureError, WorkflowAlreadyStartedError
from temporalio.service import RPCError, RPCStatusCode
from tenacity import AsyncRetrying, retry_if_exception, stop_after_delay, wait_random_exponential

from schemas.episode import EpisodeResult, EpisodeSpec, PolicySpec, workflow_id
from schemas.message import Answer, Stop
from schemas.sandbox import DriverName
from schemas.slice import Summary
from schemas.start import EpisodeStart
from schemas.status import EpisodeStatus
from schemas.task import Task
from tiltyard.episode.tasks import TaskShelf
from tiltyard.errors import BadInput, EnvironmentFailed
from tiltyard.ports import Journal, Objects, Records
from tiltyard.reopen.forking import Changes, Forking
from tiltyard.reopen.kept import no_such_episode, task_of
from workers.chains import pinned_build
from workers.failing import failing
from workers.settings import Settings
from workers.versions import GONE, polled
from workflows.episode import EpisodeWorkflow

DEFAULT_DRIVER: DriverName = "bubblewrap"

POLL_S = 0.1
"""Between looks for an outcome that is not recorded yet."""

RESTART = timedelta(minutes=1)
"""How long a start of an episode outwaits a Temporal server that restarts."""

PRESENT = timedelta(seconds=10)
"""How long a question to an episode outwaits a worker that has just been started."""

AWAY = {RPCStatusCode.UNAVAILABLE, RPCStatusCode.DEADLINE_EXCEEDED, RPCStatusCode.CANCELLED}


def _server_is_away(error: BaseException) -> bool:
    return isinstance(error, RPCError) and error.status in AWAY


class _NoWorker(EnvironmentFailed):
    """Nobody can go on with the episode; perhaps it is being moved to the version that is served."""


def _has_no_worker(error: BaseException) -> bool:
    return isinstance(error, _NoWorker)


def _is_away(error: BaseException) -> bool:
    """The server, or the worker: "no poller seen" is what the server says of one that has not polled yet."""
    no_poller = isinstance(error, RPCError) and error.status is RPCStatusCode.FAILED_PRECONDITION
    return no_poller or _has_no_worker(error) or _server_is_away(error)


def _patiently(away: Callable[[BaseException], bool], limit: timedelta) -> AsyncRetrying:
    return AsyncRetrying(
        retry=retry_if_exception(away),
        wait=wait_random_exponential(multiplier=0.2, max=3),
        stop=stop_after_delay(limit),
        reraise=True,
    )


def _refusal(episode_id: str, why: str) -> BadInput:
    return BadInput(why, field=episode_id, fix=f"`tiltyard episodes show {episode_id}` says how it stands")


def _said(cause: BaseException) -> str:
    """What the episode said, without the name of the error that Temporal puts before it."""
    return cause.message if isinstance(cause, FailureError) else str(cause)


def new_episode_id() -> str:
    """A fresh id: ``e-`` and ten lower-case letters or digits."""
    return "e-" + "".join(secrets.choice("abcdefghijkmnpqrstuvwxyz23456789") for _ in range(10))


class Ground:
    """What a command needs of a running stack. A worker that has been silent for ``gone`` is none."""

    def __init__(
        self,
        client: Client,
        records: Records,
        journal: Journal,
        objects: Objects,
        settings: Settings,
        gone: timedelta = GONE,
    ) -> None:
        self.client = client
        self.records = records
        self.journal = journal
        self.objects = objects
        self.settings = settings
        self._gone = gone
        self._tasks = TaskShelf(objects)
        self._forking = Forking(records, journal, objects)

    async def plan(
        self, task: Task, policy: PolicySpec, seed: int, sandbox: DriverName = DEFAULT_DRIVER
    ) -> EpisodeSpec:
        """A trial of the task; nothing runs yet, the task itself is kept from now on.

        ``sandbox`` is what makes the sandbox of a task that needs one.
        """
        return EpisodeSpec(
            episode_id=new_episode_id(),
            task_id=task.id,
            task_digest=await self._tasks.store(task),
            world=task.world,
            policy=policy,
            seed=seed,
            limits=task.limits,
            sandbox=sandbox if task.needs_sandbox else None,
        )

    async def task_of(self, episode_id: str) -> Task:
        """The task that an episode was planned with, whatever has become of its file. Raises ``BadInput``, and as
        ``kept.task_of`` does."""
        return await task_of(await self._spec(episode_id), self._tasks)

    async def plan_fork(self, parent: str, turn: int, **own: Unpack[Changes]) -> EpisodeSpec:
        """A trial that goes on from ``parent`` before its turn ``turn``; nothing runs yet. Raises as
        ``Forking.plan`` does."""
        return await self._forking.plan(parent, turn, new_episode_id(), **own)

    def another(self, spec: EpisodeSpec, seed: int) -> EpisodeSpec:
        """The same trial with another seed."""
        return spec.model_copy(update={"episode_id": new_episode_id(), "seed": seed})

    async def _spec(self, episode_id: str) -> EpisodeSpec:
        spec = await self.records.spec(episode_id)
        if spec is None:
            raise no_such_episode(episode_id)
        return spec

    async def submit(self, specs: Sequence[EpisodeSpec]) -> None:
        """Record each trial, then start it. Again for the same trials: nothing happens."""
        for spec in specs:
            await self.records.plan([spec])
            await self._start(spec)

    async def _start(self, spec: EpisodeSpec) -> None:
        async for attempt in _patiently(_server_is_away, RESTART):
            with attempt:
                await self._start_once(spec)

    async def _start_once(self, spec: EpisodeSpec) -> None:
        try:
            await self.client.start_workflow(
                EpisodeWorkflow.run,
                EpisodeStart(spec=spec, tuning=self.settings.tuning),
                id=workflow_id(spec.episode_id),
                task_queue=self.settings.task_queue,
                id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
            )
        except WorkflowAlreadyStartedError:
            return

    async def result(self, episode_id: str) -> EpisodeResult:
        """The recorded outcome, when the episode has ended. It outwaits a restart of the stack."""
        while True:
            closed = await self._closed(episode_id)
            found = await self.records.result(episode_id)
            if found is not None and closed:
                return found
            await asyncio.sleep(POLL_S)

    async def _closed(self, episode_id: str) -> bool:
        """Wait for the workflow's end; false when the server went away meanwhile."""
        handle = self.client.get_workflow_handle(workflow_id(episode_id), result_type=Summary)
        try:
            await self._see_that_it_is_served(handle)
            await handle.result()
        except WorkflowFailureError:
            return True
        except RPCError as error:
            return error.status is RPCStatusCode.NOT_FOUND
        return True

    async def status(self, episode_id: str) -> EpisodeStatus:
        """What the episode says of itself; of one that has ended, what is recorded."""
        found = await self.records.result(episode_id)
        if found is not None:
            return EpisodeStatus(
                episode_id=episode_id, phase="done", turns=found.counts.turns, end=found.end, reason=found.reason
            )
        handle = await self._handle(episode_id)
        try:
            async for attempt in _patiently(_is_away, PRESENT):
                with attempt:
                    failing_at = failing(await self._see_that_a_worker_has_it(handle))
                    status = await handle.query(EpisodeWorkflow.status)
                    return status.model_copy(update={"failing": failing_at})
            raise AssertionError("retrying ends with an answer or an error")
        except RPCError as error:
            raise EnvironmentFailed(
                f"the episode {episode_id} does not answer: {error.message}",
                fix="see what `tiltyard doctor` says of the stack, then try again",
            ) from error

    async def stop(self, episode_id: str, reason: str = "stopped by request") -> None:
        """End the episode as cancelled."""
        await self._update(episode_id, EpisodeWorkflow.stop, Stop(reason=reason))

    async def pause(self, episode_id: str) -> None:
        """Hold it at the next turn boundary."""
        await self._update(episode_id, EpisodeWorkflow.pause)

    async def resume(self, episode_id: str) -> None:
        """Let it go on."""
        await self._update(episode_id, EpisodeWorkflow.resume)

    async def answer(self, episode_id: str, text: str) -> None:
        """Answer its question."""
        await self._update(episode_id, EpisodeWorkflow.answer, Answer(text=text))

    async def _update(self, episode_id: str, update: object, *arguments: object) -> None:
        """Raises ``BadInput`` when the episode refuses the message or has ended."""
        handle = await self._handle(episode_id)
        try:
            async for attempt in _patiently(_has_no_worker, PRESENT):
                with attempt:
                    await self._see_that_a_worker_has_it(handle)
            await handle.execute_update(update, *arguments)  # type: ignore[call-overload]  # a table of updates
        except WorkflowUpdateFailedError as error:
            raise _refusal(episode_id, _said(error.cause)) from error
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                raise _refusal(episode_id, "the episode has ended") from error
            raise EnvironmentFailed(
                f"the episode {episode_id} does not answer: {error.message}",
                fix="see what `tiltyard doctor` says of the stack, then try again",
            ) from error

    async def _see_that_it_is_served(self, handle: WorkflowHandle[Any, Summary]) -> WorkflowExecutionDescription:
        """What Temporal says of it. Raises ``BadInput`` for an episode on another task queue: our workers would
        never get it."""
        found = await handle.describe()
        if found.status is WorkflowExecutionStatus.RUNNING and found.task_queue != self.settings.task_queue:
            raise BadInput(
                f"the episode {handle.id} was started on the task queue {found.task_queue!r}, "
                f"and this command's is {self.settings.task_queue!r}",
                field="TILTYARD_TASK_QUEUE",
                fix=f"set TILTYARD_TASK_QUEUE={found.task_queue}",
            )
        return found

    async def _see_that_a_worker_has_it(self, handle: WorkflowHandle[Any, Summary]) -> WorkflowExecutionDescription:
        """The same; raises ``EnvironmentFailed`` too where no worker has the episode's version of the code."""
        found = await self._see_that_it_is_served(handle)
        version = pinned_build(found.raw_description.workflow_execution_info.versioning_info)
        if version and version not in await polled(self.client, found.task_queue, self._gone):
            raise _NoWorker(
                f"{handle.id} began with the version {version} of the workflows' code, and no worker has that",
                fix="`tiltyard doctor` says whether it can go on, and how",
            )
        return found

    async def _handle(self, episode_id: str) -> WorkflowHandle[EpisodeWorkflow, Summary]:
        await self._spec(episode_id)
        return self.client.get_workflow_handle_for(EpisodeWorkflow.run, workflow_id(episode_id))
