"""One slice: loop turns until the time is up or the workflow is needed (design §4).

The order of writes is what makes a crash harmless. A decision is journalled before its effects, its observations
after them. So a slice that starts reads the journal and first finishes the turn that it finds open, under the
same delivery ids; a policy is never asked twice for a turn whose decision is journalled.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from schemas.decision import Call, Decision
from schemas.episode import End
from schemas.journal import TurnRecord, Writer
from schemas.observation import Observation
from schemas.slice import MAX_REASON, CallRef, Ending, SliceReport, SliceRequest
from schemas.span import LONGEST_S
from schemas.task import WAIT, Task
from schemas.tool import ToolSpec
from schemas.world import DeliveryRequest
from tiltyard.episode.decisions import recordable
from tiltyard.episode.delivery import Reconciler, delivery_id
from tiltyard.episode.progress import Progress, clip
from tiltyard.errors import (
    BadInput,
    DeliveryConflict,
    EnvironmentFailed,
    NotPristine,
    PolicyFailed,
    WorldUnreachable,
)
from tiltyard.ports import Journal, OpenPolicy, Policies, World

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
        world: World,
        reconciler: Reconciler,
        journal: Journal,
        policies: Policies,
        load_task: Callable[[str], Awaitable[Task]],
        committed: Committed = lambda episode_id: None,
    ) -> None:
        self._world = world
        self._reconciler = reconciler
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
        except (WorldUnreachable, DeliveryConflict, NotPristine) as error:
            report = _ended(now, Ending.of(End.ENVIRONMENT_ERROR, str(error)))
        except PolicyFailed as error:
            report = _ended(now, Ending.of(End.POLICY_ERROR, str(error)))
        if report.reason == "end":
            await self._policies.close(spec.episode_id)
        return report

    async def _offered(self, task: Task) -> tuple[ToolSpec, ...]:
        tools = await self._reconciler.until_reply(lambda: self._world.describe(task.world))
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
        now_s, faults = now.progress.now_s, []
        if record.decision.ask is not None:
            observation = _answer(now, record.decision.ask)
            if observation is None:
                return _report(now, "question", question=record.decision.ask[:MAX_REASON])
            observations = (observation,)
        for index, call in enumerate(record.decision.calls):
            wait_s = _real_wait_s(now, CallRef(turn=record.turn, call=index), call)
            if wait_s:
                return _report(now, "wait", wait_s=wait_s, waiting_for=CallRef(turn=record.turn, call=index))
            observation, fault, now_s = await self._call(now, record, index, call, now_s)
            observations += (observation,)
            faults += [fault] if fault else []
        await self._journal.observe(*now.key, now.writer, record.turn, observations, tuple(faults), now_s)
        answered = {"observations": observations, "faults": tuple(faults), "now_s": now_s}
        now.progress.add(record.model_copy(update=answered))
        now.open = None
        return None

    async def _call(
        self, now: _Slice, record: TurnRecord, index: int, call: Call, now_s: int
    ) -> tuple[Observation, str, int]:
        """(what the policy is shown, the planned fault that fired, the world's clock)."""
        if now.progress.left().tool_calls <= index:
            return _refused(call, "budget_exhausted", "no tool calls are left"), "", now_s
        request = DeliveryRequest(
            namespace=now.request.lease.namespace,
            generation=now.request.lease.generation,
            delivery_id=delivery_id(*now.key, record.turn, index),
            tool=call.tool,
            arguments=call.arguments,
        )
        try:
            reply, outage_s = await self._reconciler.deliver(request)
            now.outage_s += outage_s
        except BadInput as error:  # arguments that no world can record: the agent's mistake, and nothing happened
            return _refused(call, "bad_arguments", str(error)), "", now_s
        if reply.committed:
            self._committed(now.request.spec.episode_id)
        shown = reply.shown
        observation = Observation(
            tool=call.tool, status=shown.status, content=shown.content, code=shown.code, message=shown.message
        )
        return clip(observation, now.task.limits.observation_bytes), reply.fault, reply.now_s


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
    )


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
    return notice


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
