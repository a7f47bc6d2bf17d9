"""The episode: lease and provision, turns in slices, then settle, seal, drain, collect, grade and give back.

An episode that fails is a recorded outcome, not a failed workflow. Every way out of the turns, a cancellation
and our own errors included, leads through ``finish``; what this run cannot do itself (it was terminated, timed
out, or cannot be replayed) the janitor does.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError, is_cancelled_exception

from activities.leasing import LeaseActivities
from activities.turns import TurnActivities
from schemas.episode import End
from schemas.message import Answer, Stop
from schemas.sandbox import SandboxRef
from schemas.slice import CallRef, Ending, LeaseRef, Restored, SliceReport, SliceRequest, Summary
from schemas.start import Carried, EpisodeStart, LeaseOrder, ProvisionOrder
from schemas.status import EpisodeStatus, Phase
from workflows.cleanup import uninterruptible
from workflows.finish import finish
from workflows.options import slice_options, step_options

MAX_LOSSES = 10
"""Sandboxes of one episode that may be lost and made anew: past it the host, not the episode, is what is tried."""


@workflow.defn(name="Episode")
class EpisodeWorkflow:
    """One trial of one task by one policy."""

    @workflow.init
    def __init__(self, start: EpisodeStart) -> None:
        carried = start.carried
        self._start = start
        self._spec = start.spec
        self._lease: LeaseRef | None = carried.lease if carried else None
        self._sandbox: SandboxRef | None = carried.sandbox if carried else None
        self._restored: Restored | None = carried.restored if carried else None
        self._slice_no = carried.slice_no if carried else 0
        self._first_slice = self._slice_no
        self._turns = carried.turns if carried else 0
        self._used_s = carried.used_s if carried else 0.0
        self._timings = dict(carried.timings) if carried else {}
        self._paused = False
        self._noticed = False
        self._phase: Phase = "leasing"
        self._question = ""
        self._answered = False
        self._answer: str | None = None
        self._waited: CallRef | None = None
        self._stop: Stop | None = None
        self._ending: Ending | None = None
        self._slice: workflow.ActivityHandle[SliceReport] | None = None

    @workflow.run
    async def run(self, start: EpisodeStart) -> Summary:
        failure: BaseException | None = None
        try:
            await self._prepare()
            self._ending = await self._run_turns()
        except (Exception, asyncio.CancelledError) as error:
            failure = error
            self._ending = self._ending_of(error)
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

        A cancellation waits for what is being made: a lease or a sandbox that nobody knows would leak.
        """
        if self._lease is not None:
            return
        began = workflow.now()
        prepared, hit = await uninterruptible(self._take_places())
        self._timings["lease"] = (workflow.now() - began).total_seconds()
        if hit is not None:
            raise hit
        for error in prepared.result():
            raise error

    async def _take_places(self) -> list[BaseException]:
        """Take both, and keep whatever was taken; what went wrong."""
        taken = await asyncio.gather(
            self._lease_namespace(),
            *((self._provision(1),) if self._spec.sandbox is not None else ()),
            return_exceptions=True,
        )
        return [error for error in taken if error is not None]

    async def _lease_namespace(self) -> None:
        order = LeaseOrder(spec=self._spec, first_run_id=workflow.info().first_execution_run_id)
        self._lease = await workflow.execute_activity_method(
            LeaseActivities.lease, order, **step_options(self._start.tuning)
        )

    async def _provision(self, incarnation: int, lost: SliceReport | None = None) -> None:
        """The first sandbox, or one in the place of one that was ``lost``, with the files of its last checkpoint.

        One that is gone before we hear of it has run nothing: the next incarnation is made in its place.
        """
        while True:
            try:
                return await self._make_sandbox(incarnation, lost)
            except ActivityError as error:
                gone = isinstance(error.cause, ApplicationError) and error.cause.type == "SandboxLost"
                if not gone or incarnation > MAX_LOSSES:
                    raise
                incarnation += 1

    async def _make_sandbox(self, incarnation: int, lost: SliceReport | None) -> None:
        order = ProvisionOrder(
            spec=self._spec,
            first_run_id=workflow.info().first_execution_run_id,
            incarnation=incarnation,
            generation=self._lease.generation if self._lease is not None and lost is not None else 0,
        )
        made = await workflow.execute_activity_method(
            LeaseActivities.provision, order, **step_options(self._start.tuning)
        )
        self._sandbox = made.sandbox
        if lost is not None:
            self._restored = Restored(
                from_turn=made.from_turn,
                open_turn=lost.open_turn,
                turns=lost.turns,
                out_of_memory=lost.out_of_memory,
            )

    async def _replace_sandbox(self, lost: SliceReport) -> None:
        """A cancellation waits for the new sandbox, as it does for the first."""
        assert self._sandbox is not None
        incarnation = self._sandbox.incarnation + 1
        made, hit = await uninterruptible(self._provision(incarnation, lost))
        if hit is not None:
            raise hit
        made.result()

    async def _run_turns(self) -> Ending:
        while True:
            await self._hold_while_paused()
            if self._stop is not None:
                return Ending.of(End.CANCELLED, self._stop.reason)
            await self._continue_as_new_when_due()
            report = await self._run_slice()
            if report.turns > self._turns:
                self._restored = None  # the policy has been asked since, and so told
            self._turns, self._noticed = report.turns, report.noticed
            self._used_s += report.used_s
            if workflow.cancellation_reason() is not None:
                raise asyncio.CancelledError
            if report.ending is not None:
                return report.ending
            if report.reason == "wait":
                if report.wait_s >= self._wall_left_s():
                    return Ending.of(End.BUDGET_EXHAUSTED, "wall time: the wait is longer than what is left")
                await self._wait(report.wait_s)
                self._waited = report.waiting_for
            elif report.reason == "question":
                await self._ask(report.question)
            elif report.reason == "lost":
                if self._sandbox is not None and self._sandbox.incarnation > MAX_LOSSES:
                    return Ending.of(End.ENVIRONMENT_ERROR, f"the sandbox was lost {MAX_LOSSES + 1} times")
                await self._replace_sandbox(report)

    async def _run_slice(self) -> SliceReport:
        lease, tuning = self._lease, self._start.tuning
        assert lease is not None
        request = SliceRequest(
            spec=self._spec,
            lease=lease,
            run_id=workflow.info().run_id,
            slice_no=self._slice_no,
            seconds=tuning.slice_s,
            max_turns=tuning.slice_turns,
            wall_left_s=self._wall_left_s(),
            noticed=self._noticed,
            answered=self._answered,
            answer=self._answer,
            waited=self._waited,
            sandbox=self._sandbox,
            restored=self._restored,
        )
        self._phase = "turns"
        self._slice_no += 1
        self._answered, self._answer, self._waited = False, None, None
        self._slice = workflow.start_activity_method(
            TurnActivities.run_slice, request, **slice_options(request, tuning)
        )
        return await self._slice

    async def _hold_while_paused(self) -> None:
        if not self._paused or self._stop is not None:
            return
        self._phase = "paused"
        await workflow.wait_condition(lambda: not self._paused or self._stop is not None)

    async def _wait(self, seconds: float) -> None:
        """A durable timer; only a stop cuts it short."""
        self._phase = "waiting"
        await self._until(lambda: self._stop is not None, seconds)

    async def _ask(self, question: str) -> None:
        """Hold the episode until a person answers, or the time for it is over."""
        self._phase, self._question = "question", question
        seconds = min(self._spec.limits.answer_s, max(0.0, self._wall_left_s()))
        await self._until(lambda: self._answered or self._stop is not None, seconds)
        self._question, self._answered = "", True

    async def _until(self, condition: Callable[[], bool], seconds: float) -> None:
        """Waiting is the policy's wish, so it is in its wall-time budget."""
        began = workflow.now()
        with suppress(TimeoutError):
            await workflow.wait_condition(condition, timeout=timedelta(seconds=seconds))
        self._used_s += (workflow.now() - began).total_seconds()

    async def _continue_as_new_when_due(self) -> None:
        info = workflow.info()
        due = self._slice_no - self._first_slice >= self._start.tuning.slices_per_run
        pending = self._answered or self._waited is not None
        if pending or not (due or info.is_continue_as_new_suggested()):
            return
        await workflow.wait_condition(workflow.all_handlers_finished)
        if self._paused or self._stop is not None:
            return
        assert self._lease is not None
        carried = Carried(
            lease=self._lease,
            slice_no=self._slice_no,
            turns=self._turns,
            used_s=self._used_s,
            timings=self._timings,
            sandbox=self._sandbox,
            restored=self._restored,
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
            settle=ending.end is not End.CANCELLED,
            timings=self._timings,
            sandbox=self._sandbox,
        )

    @workflow.query
    def status(self) -> EpisodeStatus:
        return EpisodeStatus(
            episode_id=self._spec.episode_id,
            phase=self._phase,
            turns=self._turns,
            slices=self._slice_no,
            paused=self._paused,
            question=self._question,
            end=self._ending.end if self._ending else None,
            reason=self._ending.reason if self._ending else "",
        )

    @workflow.update
    async def stop(self, message: Stop) -> None:
        """End the episode as cancelled; a slice under way is cancelled, its effects stay accounted for."""
        self._stop = message
        if self._slice is not None:
            self._slice.cancel()

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
