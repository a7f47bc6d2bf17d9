"""One slice: loop turns until the time is up or the workflow is needed (design §4).

The order of writes is what makes a crash harmless. A decision is journalled before its effects, its observations
after them. So a slice that starts, from the journal or from what the last slice here knew of it (``known``), first
finishes the turn that it finds open, under the same delivery ids; a policy is never asked twice for a turn whose
decision is journalled.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable

from schemas.decision import Call, Decision
from schemas.episode import End
from schemas.journal import TurnRecord, Writer
from schemas.observation import Observation
from schemas.slice import MAX_REASON, CallRef, Ending, SliceReport, SliceRequest
from schemas.task import Task
from schemas.tool import ToolSpec
from tiltyard.episode.clipping import clip
from tiltyard.episode.decisions import recordable
from tiltyard.episode.delivery import delivery_id
from tiltyard.episode.gateway import OVER_BUDGET, SANDBOX_LOST, Clocks, Gateway, after_command
from tiltyard.episode.known import KnownJournals
from tiltyard.episode.rebuilding import rebuild
from tiltyard.episode.sandboxing import Checkpoints
from tiltyard.episode.slice_state import (
    SliceState,
    answer_to,
    begun,
    ended,
    ending_of,
    going_on,
    is_over,
    left_known,
    lost,
    notice,
    real_wait_s,
    report_of,
    told_of_loss,
)
from tiltyard.errors import (
    DeliveryConflict,
    EnvironmentFailed,
    JournalClosed,
    NotPristine,
    NotRebuilt,
    PolicyFailed,
    RecordingEnded,
    SandboxLost,
    SandboxUnreachable,
    WorldUnreachable,
)
from tiltyard.ports import Journal, OpenPolicy, Policies
from tiltyard.sandbox.tools import is_command, may_change_files

Committed = Callable[[str], None]
"""Told the episode's id after a call took effect and before anything of it is journalled; used by drills."""


class SliceRunner:
    """Runs slices. ``load_task`` reads a task by digest; ``committed`` is told of every effect. ``known`` is what
    its slices leave to one another."""

    def __init__(
        self,
        gateway: Gateway,
        checkpoints: Checkpoints,
        journal: Journal,
        policies: Policies,
        load_task: Callable[[str], Awaitable[Task]],
        committed: Committed = lambda episode_id: None,
        known: KnownJournals | None = None,
    ) -> None:
        self._gateway = gateway
        self._checkpoints = checkpoints
        self._journal = journal
        self._policies = policies
        self._load_task = load_task
        self._committed = committed
        self._known = KnownJournals() if known is None else known

    async def run(self, request: SliceRequest, attempt_id: str) -> SliceReport:
        """One slice. Raises ``Replaced``, ``Fenced``, ``BadPolicy``; a failing policy or world is an ending."""
        spec = request.spec
        writer = Writer(run_id=request.run_id, slice_no=request.slice_no, attempt_id=attempt_id)
        try:
            now = await self._begun(request, writer)
        except JournalClosed:
            return await self._as_it_ended(request, writer)
        try:
            if request.sandbox_lost:
                raise SandboxLost("its host is lost")
            if request.restored is not None:
                now.not_kept = await self._checkpoints.not_kept(now.checkpoint)
            report = await self._turns(now)
            await self._checkpoint(now)
        except SandboxLost as error:
            report = lost(now, error)
        except (WorldUnreachable, SandboxUnreachable, DeliveryConflict, NotPristine, NotRebuilt) as error:
            report = ended(now, Ending.of(End.ENVIRONMENT_ERROR, str(error)))
        if report.reason == "end":
            await self._policies.close(spec.episode_id)
        elif (known := left_known(now)) is not None:
            self._known.keep(now.key, writer, known)
        return report

    async def _begun(self, request: SliceRequest, writer: Writer) -> SliceState:
        """The slice over all turns so far: those that the last one here has left, or the journal's."""
        key = request.spec.episode_id, request.lease.generation
        before = await self._journal.take(*key, writer)
        known = self._known.taken(key, before)
        task = await self._load_task(request.spec.task_digest)
        if known is not None:
            return going_on(request, writer, task, known)
        return begun(request, writer, task, await self._journal.read(*key))

    async def _as_it_ended(self, request: SliceRequest, writer: Writer) -> SliceReport:
        """The end that the journal tells of: its workflow was reset to before it, while or after it was closed.

        Raises ``JournalClosed`` where it was closed in the middle of the turns.
        """
        task = await self._load_task(request.spec.task_digest)
        turns = await self._journal.read(request.spec.episode_id, request.lease.generation)
        now = begun(request, writer, task, turns)
        if (ending := ending_of(now)) is None:
            raise JournalClosed("the journal has been sealed, and its turns have come to no end")
        return ended(now, ending)

    async def _turns(self, now: SliceState) -> SliceReport:
        """Turns until the workflow is needed. A failing policy ends them, and is judged by what it has done."""
        spec = now.request.spec
        try:
            await self._gateway.connect(now.place)
            await self._catch_up(now)
            now.tools = await self._offered(now.task)
            policy = await self._policies.open(spec.episode_id, spec, now.task)
            now.recording = policy.recording
            now.began = time.monotonic()
            return await self._loop(now, policy)
        except RecordingEnded:
            assert now.recording is not None, "only what plays a recording comes to its end"
            return ended(now, now.recording.ending)
        except PolicyFailed as error:
            return ended(now, Ending.of(End.POLICY_ERROR, str(error)))

    async def _catch_up(self, now: SliceState) -> None:
        """Have the files of a fork's sandbox as they were in its parent."""
        if now.behind.turns:
            await rebuild(self._gateway, now.place, now.key, now.behind)

    async def _offered(self, task: Task) -> tuple[ToolSpec, ...]:
        tools = await self._gateway.tools(task)
        return tuple(tool for tool in tools if not task.tools or tool.name in task.tools)

    async def _loop(self, now: SliceState, policy: OpenPolicy) -> SliceReport:
        while True:
            if now.open is not None:
                interrupted = await self._finish_turn(now, now.open)
                if interrupted is not None:
                    return interrupted
            ending = ending_of(now)
            if ending is not None:
                return ended(now, ending)
            if now.added and is_over(now):
                return report_of(now, "time")
            decision = await self._decide(now, policy, notice(now))
            if decision is None:
                return ended(now, Ending.of(End.BUDGET_EXHAUSTED, "wall time"))
            await self._journal.decide(*now.key, now.writer, now.turns, decision)
            now.open = TurnRecord(turn=now.turns, decision=decision)
            now.unsaved = now.unsaved or _may_change_files(now.task, decision)
            now.added += 1

    async def _decide(self, now: SliceState, policy: OpenPolicy, told: str) -> Decision | None:
        """The policy's decision, or ``None`` when the wall-time budget ends before it comes."""
        view = now.progress.view(now.tools, now.request.spec.seed, told)
        turn_s = now.task.limits.turn_s
        allowed_s = min(turn_s, max(1.0, now.wall_left_s))
        deadline = asyncio.timeout(allowed_s)
        try:
            async with deadline:
                decision = await policy.act(view)
        except (PolicyFailed, RecordingEnded, EnvironmentFailed):
            raise
        except Exception as error:
            if not deadline.expired():  # its own error, which may be a TimeoutError too
                raise PolicyFailed(f"the policy raised {type(error).__name__}: {error}") from error
            if allowed_s < turn_s:
                return None
            raise PolicyFailed(f"the policy gave no decision within {turn_s:g} s") from None
        return recordable(decision)

    async def _finish_turn(self, now: SliceState, record: TurnRecord) -> SliceReport | None:
        """Carry out the open turn and journal what it was answered; a report when the workflow is needed."""
        observations: tuple[Observation, ...] = ()
        clocks, faults = now.progress.clocks, []
        if record.decision.ask is not None:
            asked = CallRef(turn=record.turn, call=0)
            observation = answer_to(now, asked)
            if observation is None:
                question = record.decision.ask[:MAX_REASON]
                return report_of(now, "question", waiting_for=asked, question=question)
            observations = (observation,)
        for index, call in enumerate(record.decision.calls):
            wait_s = real_wait_s(now, CallRef(turn=record.turn, call=index), call)
            if wait_s:
                return report_of(now, "wait", wait_s=wait_s, waiting_for=CallRef(turn=record.turn, call=index))
            observation, fault, clocks = await self._call(now, record, index, call, clocks)
            observations += (observation,)
            faults += [fault] if fault else []
        await self._journal.observe(*now.key, now.writer, record.turn, observations, tuple(faults), clocks.now_s)
        answered = {"observations": observations, "faults": tuple(faults), "now_s": clocks.now_s}
        now.progress.add(record.model_copy(update=answered))
        now.open = None
        return None

    async def _call(
        self, now: SliceState, record: TurnRecord, index: int, call: Call, clocks: Clocks
    ) -> tuple[Observation, str, Clocks]:
        """(what the policy is shown, the planned fault that fired, the clocks after it)."""
        if now.progress.left().tool_calls <= index:
            return _refused(call, OVER_BUDGET, "no tool calls are left"), "", clocks
        restored = now.request.restored
        if is_command(now.task, call.tool) and restored is not None and restored.open_turn == record.turn:
            told = told_of_loss(restored, now.not_kept)
            return _refused(call, SANDBOX_LOST, told), "", after_command(clocks, call.tool)
        sent = delivery_id(*now.key, record.turn, index)
        answered = await self._gateway.call(now.place, sent, call, clocks, now.command_left_s)
        now.outage_s += answered.outage_s
        if answered.committed:
            self._committed(now.request.spec.episode_id)
        observation = clip(answered.observed(call.tool), now.task.limits.observation_bytes)
        return observation, answered.fault, answered.clocks

    async def _checkpoint(self, now: SliceState) -> None:
        """Keep the sandbox's files as they are after the last turn, where a command may have changed them.

        Of a turn that waits for the workflow it makes none, once it may have run commands of its own.
        """
        sandbox, plan = now.request.sandbox, now.task.sandbox
        if not now.unsaved or not now.progress or sandbox is None or plan is None:
            return
        if now.open is not None and _may_change_files(now.task, now.open.decision):
            return
        name, _ = await self._checkpoints.save(sandbox, plan, now.checkpoint)
        await self._journal.checkpoint(*now.key, now.writer, len(now.progress) - 1, name)
        now.checkpoint, now.unsaved = name, False


def _may_change_files(task: Task, decision: Decision) -> bool:
    return any(may_change_files(task, call.tool) for call in decision.calls)


def _refused(call: Call, code: str, message: str) -> Observation:
    """What is shown of a call that never reached the world."""
    return Observation(tool=call.tool, status="error", code=code, message=message)
