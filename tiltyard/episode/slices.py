"""One slice: loop turns until the time is up or the workflow is needed (design §4).

The order of writes is what makes a crash harmless. A decision is journalled before its effects, its observations
after them. So a slice that starts reads the journal and first finishes the turn that it finds open, under the
same delivery ids; a policy is never asked twice for a turn whose decision is journalled.
"""

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from schemas.decision import Call, Decision
from schemas.episode import End
from schemas.journal import TurnRecord, Writer
from schemas.observation import Observation
from schemas.slice import MAX_REASON, CallRef, Ending, Restored, SliceReport, SliceRequest
from schemas.span import LONGEST_S
from schemas.task import WAIT, Task
from schemas.tool import ToolSpec
from tiltyard.episode.decisions import recordable
from tiltyard.episode.delivery import delivery_id
from tiltyard.episode.gateway import Clocks, Gateway, Place, after_command
from tiltyard.episode.progress import OVER_BUDGET, Progress, clip
from tiltyard.episode.sandboxing import Checkpoints
from tiltyard.errors import (
    DeliveryConflict,
    EnvironmentFailed,
    NotPristine,
    PolicyFailed,
    SandboxLost,
    SandboxUnreachable,
    WorldUnreachable,
)
from tiltyard.ports import Journal, OpenPolicy, Policies
from tiltyard.sandbox.tools import is_command

Committed = Callable[[str], None]
"""Told the episode's id after a call took effect and before anything of it is journalled; used by drills."""


@dataclass
class _Slice:
    """What one slice knows while it runs."""

    request: SliceRequest
    writer: Writer
    task: Task
    progress: Progress
    open: TurnRecord | None
    began: float
    outage_s: float = 0
    tools: tuple[ToolSpec, ...] = ()
    added: int = 0
    noticed: bool = False
    answered: bool = False
    unsaved: bool = False

    @property
    def place(self) -> Place:
        return Place(self.task, self.request.lease, self.request.sandbox)

    @property
    def key(self) -> tuple[str, int]:
        return self.request.spec.episode_id, self.request.lease.generation

    @property
    def turns(self) -> int:
        """Turns that are journalled, the open one included."""
        return len(self.progress) + (self.open is not None)

    @property
    def used_s(self) -> float:
        """Wall time that the episode has used in this slice; an outage of the world is not the policy's."""
        return time.monotonic() - self.began - self.outage_s

    @property
    def wall_left_s(self) -> float:
        return self.request.wall_left_s - self.used_s


class SliceRunner:
    """Runs slices. ``load_task`` reads a task by digest; ``committed`` is told of every effect."""

    def __init__(
        self,
        gateway: Gateway,
        checkpoints: Checkpoints,
        journal: Journal,
        policies: Policies,
        load_task: Callable[[str], Awaitable[Task]],
        committed: Committed = lambda episode_id: None,
    ) -> None:
        self._gateway = gateway
        self._checkpoints = checkpoints
        self._journal = journal
        self._policies = policies
        self._load_task = load_task
        self._committed = committed

    async def run(self, request: SliceRequest, attempt_id: str) -> SliceReport:
        """One slice. Raises ``Replaced``, ``Fenced``, ``BadPolicy``; a failing policy or world is an ending."""
        spec = request.spec
        writer = Writer(run_id=request.run_id, slice_no=request.slice_no, attempt_id=attempt_id)
        await self._journal.take(spec.episode_id, request.lease.generation, writer)
        task = await self._load_task(spec.task_digest)
        turns = await self._journal.read(spec.episode_id, request.lease.generation)
        now = _begun(request, writer, task, turns)
        try:
            now.tools = await self._offered(task)
            policy = await self._policies.open(spec.episode_id, spec, task)
            now.began = time.monotonic()
            report = await self._loop(now, policy)
            if report.reason != "end":
                await self._checkpoint(now)
        except SandboxLost as error:
            report = _lost(now, error)
        except (WorldUnreachable, SandboxUnreachable, DeliveryConflict, NotPristine) as error:
            report = _ended(now, Ending.of(End.ENVIRONMENT_ERROR, str(error)))
        except PolicyFailed as error:
            report = _ended(now, Ending.of(End.POLICY_ERROR, str(error)))
        if report.reason == "end":
            await self._policies.close(spec.episode_id)
        return report

    async def _offered(self, task: Task) -> tuple[ToolSpec, ...]:
        tools = await self._gateway.tools(task)
        return tuple(tool for tool in tools if not task.tools or tool.name in task.tools)

    async def _loop(self, now: _Slice, policy: OpenPolicy) -> SliceReport:
        while True:
            if now.open is not None:
                interrupted = await self._finish_turn(now, now.open)
                if interrupted is not None:
                    return interrupted
            ending = _ending(now)
            if ending is not None:
                return _ended(now, ending)
            if now.added and _slice_is_over(now):
                return _report(now, "time")
            decision = await self._decide(now, policy, _notice(now))
            if decision is None:
                return _ended(now, Ending.of(End.BUDGET_EXHAUSTED, "wall time"))
            await self._journal.decide(*now.key, now.writer, now.turns, decision)
            now.open = TurnRecord(turn=now.turns, decision=decision)
            now.added += 1

    async def _decide(self, now: _Slice, policy: OpenPolicy, notice: str) -> Decision | None:
        """The policy's decision, or ``None`` when the wall-time budget ends before it comes."""
        view = now.progress.view(now.tools, now.request.spec.seed, notice)
        turn_s = now.task.limits.turn_s
        allowed_s = min(turn_s, max(1.0, now.wall_left_s))
        deadline = asyncio.timeout(allowed_s)
        try:
            async with deadline:
                decision = await policy.act(view)
        except (PolicyFailed, EnvironmentFailed):
            raise
        except Exception as error:
            if not deadline.expired():  # its own error, which may be a TimeoutError too
                raise PolicyFailed(f"the policy raised {type(error).__name__}: {error}") from error
            if allowed_s < turn_s:
                return None
            raise PolicyFailed(f"the policy gave no decision within {turn_s:g} s") from None
        return recordable(decision)

    async def _finish_turn(self, now: _Slice, record: TurnRecord) -> SliceReport | None:
        """Carry out the open turn and journal what it was answered; a report when the workflow is needed."""
        observations: tuple[Observation, ...] = ()
        clocks, faults = now.progress.clocks, []
        if record.decision.ask is not None:
            observation = _answer(now, record.decision.ask)
            if observation is None:
                return _report(now, "question", question=record.decision.ask[:MAX_REASON])
            observations = (observation,)
        for index, call in enumerate(record.decision.calls):
            wait_s = _real_wait_s(now, CallRef(turn=record.turn, call=index), call)
            if wait_s:
                return _report(now, "wait", wait_s=wait_s, waiting_for=CallRef(turn=record.turn, call=index))
            observation, fault, clocks = await self._call(now, record, index, call, clocks)
            observations += (observation,)
            faults += [fault] if fault else []
        await self._journal.observe(*now.key, now.writer, record.turn, observations, tuple(faults), clocks.now_s)
        answered = {"observations": observations, "faults": tuple(faults), "now_s": clocks.now_s}
        now.progress.add(record.model_copy(update=answered))
        now.open = None
        return None

    async def _call(
        self, now: _Slice, record: TurnRecord, index: int, call: Call, clocks: Clocks
    ) -> tuple[Observation, str, Clocks]:
        """(what the policy is shown, the planned fault that fired, the clocks after it)."""
        if now.progress.left().tool_calls <= index:
            return _refused(call, OVER_BUDGET, "no tool calls are left"), "", clocks
        restored = now.request.restored
        if is_command(now.task, call.tool):
            if restored is not None and restored.open_turn == record.turn:
                return _refused(call, "sandbox_lost", _of_loss(restored)), "", after_command(clocks, call.tool)
            now.unsaved = True
        answered = await self._gateway.call(now.place, delivery_id(*now.key, record.turn, index), call, clocks)
        now.outage_s += answered.outage_s
        if answered.committed:
            self._committed(now.request.spec.episode_id)
        shown = answered.shown
        observation = Observation(
            tool=call.tool, status=shown.status, content=shown.content, code=shown.code, message=shown.message
        )
        return clip(observation, now.task.limits.observation_bytes), answered.fault, answered.clocks

    async def _checkpoint(self, now: _Slice) -> None:
        """Keep the sandbox's files as they are after the last turn, where a command may have changed them.

        Of a turn that waits for the workflow it makes none, once it may have run commands of its own.
        """
        sandbox, plan = now.request.sandbox, now.task.sandbox
        if not now.unsaved or not now.progress or sandbox is None or plan is None:
            return
        if now.open is not None and any(is_command(now.task, call.tool) for call in now.open.decision.calls):
            return
        name = await self._checkpoints.save(sandbox, plan)
        await self._journal.checkpoint(*now.key, now.writer, len(now.progress) - 1, name)


def _begun(request: SliceRequest, writer: Writer, task: Task, turns: Sequence[TurnRecord]) -> _Slice:
    """A slice over what the journal holds; only its newest turn can be open."""
    opened = turns[-1] if turns and turns[-1].observations is None else None
    return _Slice(
        request=request,
        writer=writer,
        task=task,
        progress=Progress(task, turns[:-1] if opened else turns),
        open=opened,
        began=time.monotonic(),
        noticed=request.noticed,
        answered=request.answered,
        unsaved=_has_unsaved(task, turns),
    )


def _has_unsaved(task: Task, turns: Sequence[TurnRecord]) -> bool:
    """Whether commands have run since the last checkpoint: an earlier attempt may not have come to make one."""
    since = itertools.takewhile(lambda turn: not turn.checkpoint, reversed(turns))
    return any(is_command(task, call.tool) for turn in since for call in turn.decision.calls)


def _ending(now: _Slice) -> Ending | None:
    """How the turns have ended, if they have. Deterministic budgets come first, so equal runs end equally."""
    last = now.progress.last
    if last is not None and last.submit is not None:
        return Ending.of(End.SUBMITTED)
    if last is not None and last.give_up is not None:
        return Ending.of(End.GAVE_UP, last.give_up)
    why = now.progress.stalled()
    if why:
        return Ending.of(End.STALLED, why)
    exhausted = now.progress.exhausted()
    if exhausted or now.noticed:
        return Ending.of(End.BUDGET_EXHAUSTED, exhausted or "wall time")
    return None


def _notice(now: _Slice) -> str:
    """What the policy is told before a last turn. The one of the wall time is remembered: it comes once."""
    notice = now.progress.notice()
    if not notice and now.wall_left_s <= _last_turn_s(now.task):
        now.noticed = True
        notice = f"About {max(1, int(now.wall_left_s))} s are left: this is your last turn."
    restored = now.request.restored
    if restored is not None and not now.added:
        notice = f"{_of_loss(restored)} {notice}".strip()
    return notice


def _of_loss(restored: Restored) -> str:
    """What the policy is told of a sandbox that was lost."""
    files = "before the first turn" if restored.from_turn is None else f"after turn {restored.from_turn}"
    return (
        "The sandbox was lost with its processes and has been made anew: its files are as they were "
        f"{files}. What a command that was under way did is unknown; it is not run again."
    )


def _lost(now: _Slice, error: SandboxLost) -> SliceReport:
    """A lost sandbox ends the episode, or asks the workflow for a new one, as the task says."""
    plan = now.task.sandbox
    if plan is None or plan.on_loss == "environment_error":
        return _ended(now, Ending.of(End.ENVIRONMENT_ERROR, str(error)))
    return _report(now, "lost", open_turn=now.open.turn if now.open is not None else None)


def _refused(call: Call, code: str, message: str) -> Observation:
    """What is shown of a call that never reached the world."""
    return Observation(tool=call.tool, status="error", code=code, message=message)


def _last_turn_s(task: Task) -> float:
    """The wall time kept for the one last turn after the notice: a tenth of the budget, at most a turn's time."""
    return min(task.limits.turn_s, task.limits.wall_s / 10)


def _slice_is_over(now: _Slice) -> bool:
    limit = now.request.max_turns
    return now.used_s >= now.request.seconds or (limit is not None and now.added >= limit)


def _ended(now: _Slice, ending: Ending) -> SliceReport:
    return _report(now, "end", ending=ending)


def _report(now: _Slice, reason: str, **what: object) -> SliceReport:
    told = {"turns": now.turns, "reason": reason, "noticed": now.noticed, "used_s": round(now.used_s, 3)}
    return SliceReport.model_validate({**told, **what})


def _answer(now: _Slice, question: str) -> Observation | None:
    """What the question was answered, or ``None`` while a person must still answer."""
    if now.task.answers is not None:
        asked = now.progress.asked
        if asked < len(now.task.answers):
            return Observation(tool="ask", status="ok", content=now.task.answers[asked])
        return Observation(tool="ask", status="timeout", message="nobody answered")
    if not now.answered:
        return None
    now.answered = False
    if now.request.answer is None:
        return Observation(tool="ask", status="timeout", message="nobody answered in time")
    return Observation(tool="ask", status="ok", content=now.request.answer)


def _real_wait_s(now: _Slice, ref: CallRef, call: Call) -> int:
    """Seconds for which the workflow must sleep before this call, 0 for none.

    Only a task that waits in real time sleeps; arguments that the world will refuse do not.
    """
    if now.task.waiting != "real" or call.tool != WAIT or now.request.waited == ref:
        return 0
    seconds = call.arguments.get("seconds")
    acceptable = isinstance(seconds, int) and not isinstance(seconds, bool) and 0 < seconds <= LONGEST_S
    return seconds if acceptable and isinstance(seconds, int) else 0
