"""The episode: lease and provision, turns in slices, then settle, seal, drain, collect, grade and give back.

An episode that fails is a recorded outcome, not a failed workflow. Every way out of the turns, a cancellation
and our own errors included, leads through ``finish``; what this run cannot do itself (it was terminated, timed
out, or cannot be replayed) the janitor does.
"""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Any, TypeVar

from temporalio import workflow
from temporalio.common import VersioningBehavior
from temporalio.exceptions import ActivityError, ApplicationError, is_cancelled_exception

from activities.leasing import LeaseActivities
from schemas.episode import End
from schemas.message import Answer, Stop
from schemas.slice import CallRef, Ending, LeaseRef, SliceReport, SliceRequest, Summary
from schemas.start import Carried, EpisodeStart, LeaseOrder
from schemas.status import EpisodeStatus, Phase, SandboxHolding
from workflows.cleanup import uninterruptible
from workflows.finish import finish
from workflows.options import step_options
from workflows.sandbox import MAX_LOSSES, EpisodeSandbox
from workflows.slices import EpisodeSlices
from workflows.waits import hold, since, timed

ResultT = TypeVar("ResultT")

GIVE_UP = timedelta(seconds=10)
"""What a step that takes a place may still take when nobody wants it any more."""

GIVES_UP = "a step that is not wanted any more is given up"
"""The change by which it is: histories of before wait for the step's end."""


@workflow.defn(name="Episode", versioning_behavior=VersioningBehavior.PINNED)
class EpisodeWorkflow:
    """One trial of one task by one policy."""

    @workflow.init
    def __init__(self, start: EpisodeStart) -> None:
        carried = start.carried
        self._start = start
        self._spec = start.spec
        self._lease: LeaseRef | None = carried.lease if carried else None
        self._sandbox = EpisodeSandbox(start)
        self._slices = EpisodeSlices(start, self._sandbox)
        self._turns = carried.turns if carried else start.spec.kept_turns
        self._used_s = carried.used_s if carried else 0.0
        self._timings = dict(carried.timings) if carried else {}
        self._paused = False
        self._noticed = carried.noticed if carried else False
        self._phase: Phase = "leasing"
        self._question = ""
        self._answered = False
        self._answer: str | None = None
        self._waited: CallRef | None = None
        self._stop: Stop | None = None
        self._ending: Ending | None = None

    @workflow.run
    async def run(self, start: EpisodeStart) -> Summary:
        failure: BaseException | None = None
        try:
            await self._prepare()
            self._ending = await self._run_turns()
        except (Exception, asyncio.CancelledError) as error:
            # A worker that dies with a step that was to be cancelled leaves a timeout in the cancellation's stead.
            failure = asyncio.CancelledError() if workflow.cancellation_reason() is not None else error
            self._ending = self._ending_of(failure)
        self._phase = "closing"
        self._timings["turns"] = round(self._used_s, 3)
        finished, hit = await uninterruptible(self._finish(self._ending))
        summary = finished.result()
        self._phase = "done"
        cancelled = hit or (failure if failure is not None and is_cancelled_exception(failure) else None)
        if cancelled is not None and self._stop is None:
            raise cancelled
        return summary

    async def _prepare(self) -> None:
        """Lease a namespace and provision a sandbox, at the same time.

        A cancellation waits for what is being made: a lease or a sandbox that nobody knows is left to the janitor.
        """
        if self._lease is not None:
            return
        prepared, hit = await uninterruptible(self._while_wanted(self._take_places()))
        if hit is not None:
            raise hit
        for error in prepared.result():
            raise error

    async def _take_places(self) -> list[BaseException]:
        """Take both, and keep whatever was taken; what went wrong. A fork's files are found by its journal, which
        begins with its lease."""
        lease = timed(self._timings, "lease", self._lease_namespace())
        if self._spec.kept_turns:
            steps = [self._in_turn(lease)]
        else:
            steps = [lease, *([self._provision()] if self._spec.sandbox is not None else [])]
        taken = await asyncio.gather(*steps, return_exceptions=True)
        return [error for error in taken if error is not None]

    async def _in_turn(self, lease: Coroutine[Any, Any, None]) -> None:
        await lease
        if self._spec.sandbox is not None:
            await self._provision()

    async def _provision(self) -> None:
        await timed(self._timings, "provision", self._sandbox.make(self._lease))

    async def _lease_namespace(self) -> None:
        order = LeaseOrder(spec=self._spec, first_run_id=workflow.info().first_execution_run_id)
        self._lease = await workflow.execute_activity_method(
            LeaseActivities.lease, order, **step_options(self._start.tuning)
        )

    async def _change_sandbox(self, change: Callable[[LeaseRef], Coroutine[Any, Any, None]]) -> None:
        """A cancellation waits for the new sandbox, as it does for the first."""
        assert self._lease is not None
        changed, hit = await uninterruptible(self._while_wanted(change(self._lease)))
        if hit is not None:
            raise hit
        changed.result()

    async def _while_wanted(self, step: Coroutine[Any, Any, ResultT]) -> ResultT:
        """The step. After a stop or a cancellation it has ``GIVE_UP`` left: one that fails is tried for a day."""
        taking = asyncio.create_task(step)
        await workflow.wait_condition(lambda: taking.done() or self._is_unwanted())
        if not taking.done() and workflow.patched(GIVES_UP):
            with suppress(TimeoutError):
                await workflow.wait_condition(taking.done, timeout=GIVE_UP)
            taking.cancel()
        return await taking

    def _is_unwanted(self) -> bool:
        return self._stop is not None or workflow.cancellation_reason() is not None

    async def _run_turns(self) -> Ending:
        while True:
            await self._hold_while_paused()
            if self._stop is not None:
                return Ending.of(End.CANCELLED, self._stop.reason)
            await self._continue_as_new_when_due()
            if self._sandbox.place.state == "given_up":
                await self._change_sandbox(self._sandbox.bring_back)
            report = await self._run_slice()
            self._sandbox.used(report, self._turns)
            self._turns, self._noticed = report.turns, report.noticed
            self._used_s += report.used_s
            if workflow.cancellation_reason() is not None:
                raise asyncio.CancelledError
            ending = report.ending or await self._serve(report)
            if ending is not None:
                return ending

    async def _serve(self, report: SliceReport) -> Ending | None:
        """Do what the slice has ended for, so that the next one can go on; or an ending, where none can."""
        if report.reason == "wait":
            if report.wait_s >= self._wall_left_s():
                return Ending.of(End.BUDGET_EXHAUSTED, "wall time: the wait is longer than what is left")
            await self._wait(report.wait_s)
            self._waited = report.waiting_for
        elif report.reason == "question":
            await self._ask(report.question)
            self._waited = report.waiting_for
        elif report.reason == "lost":
            if self._sandbox.place.losses >= MAX_LOSSES:
                return Ending.of(End.ENVIRONMENT_ERROR, f"the sandbox was lost {MAX_LOSSES + 1} times")
            await self._change_sandbox(partial(self._sandbox.replace, lost=report))
        return None

    async def _run_slice(self) -> SliceReport:
        self._phase = "turns"
        report = await self._slices.run(self._slice_request())
        if report.reason != "lost":  # it may not have come to what was waited for
            self._answered, self._answer, self._waited = False, None, None
        return report

    def _slice_request(self) -> SliceRequest:
        assert self._lease is not None
        tuning, place = self._start.tuning, self._sandbox.place
        return SliceRequest(
            spec=self._spec,
            lease=self._lease,
            run_id=workflow.info().run_id,
            slice_no=self._slices.number,
            seconds=tuning.slice_s,
            max_turns=tuning.slice_turns,
            wall_left_s=self._wall_left_s(),
            noticed=self._noticed,
            answered=self._answered,
            answer=self._answer,
            waited=self._waited,
            sandbox=place.sandbox,
            losses=place.losses,
            host=place.permit.host,
            restored=place.restored,
        )

    async def _hold_while_paused(self) -> None:
        if not self._paused or self._stop is not None:
            return
        self._phase = "paused"
        await self._hold(lambda: not self._paused or self._stop is not None)

    async def _wait(self, seconds: float) -> None:
        """A durable timer; only a stop cuts it short. It is known from the start whether it is a long one."""
        self._phase = "waiting"
        await self._until(lambda: self._stop is not None, seconds, keep_s=0)

    async def _ask(self, question: str) -> None:
        """Hold the episode until a person answers, or the time for it is over."""
        self._phase, self._question = "question", question
        self._answered, self._answer = False, None
        seconds = min(self._spec.limits.answer_s, max(0.0, self._wall_left_s()))
        await self._until(lambda: self._answered or self._stop is not None, seconds)
        self._question, self._answered = "", True

    async def _until(self, over: Callable[[], bool], seconds: float, keep_s: float | None = None) -> None:
        """Waiting is the policy's wish, so it is in its wall-time budget; giving the sandbox up is not."""
        began = workflow.now()
        await self._hold(over, seconds, keep_s)
        self._used_s += min(seconds, since(began))

    async def _hold(
        self, over: Callable[[], bool], seconds: float | None = None, keep_s: float | None = None
    ) -> None:
        longest_s = self._start.tuning.keep_sandbox_s
        await hold(over, seconds, keep_s, longest_s, self._sandbox, self._give_up)

    async def _give_up(self) -> None:
        slice_no = self._slices.next_number()
        await self._change_sandbox(partial(self._sandbox.give_up, slice_no=slice_no))

    async def _continue_as_new_when_due(self) -> None:
        pending = self._answered or self._waited is not None
        if pending or not (self._slices.many or workflow.info().is_continue_as_new_suggested()):
            return
        await workflow.wait_condition(workflow.all_handlers_finished)
        if self._paused or self._stop is not None:
            return
        assert self._lease is not None
        carried = Carried(
            lease=self._lease,
            slice_no=self._slices.number,
            turns=self._turns,
            used_s=self._used_s,
            noticed=self._noticed,
            timings=self._timings,
            place=self._sandbox.place,
        )
        workflow.continue_as_new(self._start.model_copy(update={"carried": carried}))

    def _wall_left_s(self) -> float:
        """What is left of the wall-time budget. Time in which nothing runs, or while paused, is not used."""
        return self._spec.limits.wall_s - self._used_s

    def _ending_of(self, error: BaseException) -> Ending:
        if self._stop is not None:
            return Ending.of(End.CANCELLED, self._stop.reason)
        if is_cancelled_exception(error):
            return Ending.of(End.CANCELLED, workflow.cancellation_reason() or "the workflow was cancelled")
        cause = error.cause if isinstance(error, ActivityError) and error.cause else error
        policy = isinstance(cause, ApplicationError) and cause.type in ("BadPolicy", "PolicyFailed")
        return Ending.of(End.POLICY_ERROR if policy else End.ENVIRONMENT_ERROR, str(cause))

    async def _finish(self, ending: Ending) -> Summary:
        return await finish(
            self._spec,
            self._lease,
            ending,
            self._start.tuning,
            settle=ending.settles,
            timings=self._timings,
            place=self._sandbox.place,
        )

    @workflow.query
    def sandbox(self) -> SandboxHolding:
        """Where its sandbox is, for whoever finds others of its name."""
        return SandboxHolding(place=self._sandbox.place, changing=self._sandbox.changing)

    @workflow.query
    def status(self) -> EpisodeStatus:
        return EpisodeStatus(
            episode_id=self._spec.episode_id,
            phase=self._phase,
            turns=self._turns,
            slices=self._slices.number,
            paused=self._paused,
            question=self._question,
            end=self._ending.end if self._ending else None,
            reason=self._ending.reason if self._ending else "",
        )

    @workflow.update
    async def stop(self, message: Stop) -> None:
        """End the episode as cancelled; a slice under way is cancelled, its effects stay accounted for."""
        self._stop = message
        self._slices.cancel()

    @stop.validator
    def _may_stop(self, message: Stop) -> None:
        self._refuse(self._phase in ("closing", "done"), "the episode is ending already")

    @workflow.update
    async def pause(self) -> None:
        """Hold the episode at the next turn boundary; its wall-time budget stands still."""
        self._paused = True

    @pause.validator
    def _may_pause(self) -> None:
        self._refuse(self._phase in ("closing", "done"), "the episode is ending already")
        self._refuse(self._paused, "the episode is paused already")

    @workflow.update
    async def resume(self) -> None:
        self._paused = False

    @resume.validator
    def _may_resume(self) -> None:
        self._refuse(not self._paused, "the episode is not paused")

    @workflow.update
    async def answer(self, message: Answer) -> None:
        """Answer the question that the episode waits with."""
        self._answered, self._answer = True, message.text

    @answer.validator
    def _may_answer(self, message: Answer) -> None:
        self._refuse(not self._question or self._answered, "the episode asks nothing")

    def _refuse(self, wrong: bool, why: str) -> None:
        if wrong:
            raise ApplicationError(why, type="BadInput", non_retryable=True)
