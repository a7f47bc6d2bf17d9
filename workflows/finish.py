"""The end of every episode, whoever runs it: the episode itself, or the janitor in its place."""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError

from activities.closing import ClosingActivities
from activities.leasing import LeaseActivities
from schemas.episode import EpisodeSpec
from schemas.sandbox import SandboxRef
from schemas.slice import (
    MAX_REASON,
    CloseReport,
    CloseRequest,
    Ending,
    GradeRequest,
    LeaseRef,
    ReleaseRequest,
    Summary,
)
from schemas.start import Tuning
from workflows.options import step_options

ResultT = TypeVar("ResultT")


async def finish(
    spec: EpisodeSpec,
    lease: LeaseRef | None,
    ending: Ending,
    tuning: Tuning,
    *,
    settle: bool,
    timings: dict[str, float],
    sandbox: SandboxRef | None = None,
) -> Summary:
    """Close the lease, then grade and record the outcome while the namespace is given back.

    Each step is tried on its own, and an error of one does not keep the others from happening. A namespace that
    could not be closed is quarantined; a lease or a sandbox that could not be given back stays the janitor's.
    """
    errors: list[Exception] = []
    began = workflow.now()
    close = CloseRequest(spec=spec, lease=lease, ending=ending, settle=settle, sandbox=sandbox) if lease else None
    closed = await _kept(errors, _close(close, tuning)) if close else None
    unfit = _unfit(closed, errors)
    timings = {**timings, "close": (workflow.now() - began).total_seconds()}
    trace = closed.trace if closed else None
    release = ReleaseRequest(lease=lease, sandbox=sandbox, quarantine=unfit)
    request = GradeRequest(spec=spec, ending=ending, trace=trace, timings=timings)
    grading = workflow.execute_activity_method(ClosingActivities.grade, request, **step_options(tuning))
    summary, _ = await asyncio.gather(
        _kept(errors, grading), _kept(errors, _release(release, tuning)) if lease or sandbox else _nothing()
    )
    if summary is None:
        raise ApplicationError(f"no outcome was recorded: {_cause(errors[0])}") from errors[0]
    for error in errors:
        workflow.logger.warning("cleanup of %s: %s", spec.episode_id, _cause(error))
    return summary


def _close(request: CloseRequest, tuning: Tuning) -> Awaitable[CloseReport]:
    return workflow.execute_activity_method(ClosingActivities.close, request, **step_options(tuning))


def _unfit(closed: CloseReport | None, errors: list[Exception]) -> str:
    """Why the namespace must be quarantined; empty when it may be recycled."""
    if closed is None:
        return f"it could not be closed: {_cause(errors[0])}"[:MAX_REASON] if errors else ""
    return f"{closed.unknown} outcomes are unknown" if closed.unknown else ""


def _release(request: ReleaseRequest, tuning: Tuning) -> Awaitable[bool]:
    return workflow.execute_activity_method(LeaseActivities.release, request, **step_options(tuning))


async def _kept(errors: list[Exception], step: Awaitable[ResultT]) -> ResultT | None:
    try:
        return await step
    except Exception as error:
        errors.append(error)
        return None


async def _nothing() -> None:
    return None


def _cause(error: BaseException) -> str:
    return str(error.cause) if isinstance(error, ActivityError) and error.cause else str(error)
