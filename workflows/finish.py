"""The end of every episode, whoever runs it: the episode itself, or the janitor in its place."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, TypeVar

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError

from activities.closing import ClosingActivities
from activities.leasing import LeaseActivities
from schemas.episode import EpisodeSpec
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
from schemas.start import SandboxPlace, Tuning
from workflows.hosts import HostLost, step_on_host
from workflows.options import step_options
from workflows.waits import took

PlacedT = TypeVar("PlacedT", CloseRequest, ReleaseRequest)
ResultT = TypeVar("ResultT")

NO_SANDBOX = SandboxPlace()


async def finish(
    spec: EpisodeSpec,
    lease: LeaseRef | None,
    ending: Ending,
    tuning: Tuning,
    *,
    settle: bool,
    timings: dict[str, float],
    place: SandboxPlace = NO_SANDBOX,
) -> Summary:
    """Close the lease, then grade and record the outcome while the namespace is given back.

    Each step is tried on its own, and an error of one does not keep the others from happening. A namespace that
    could not be closed is quarantined; a lease or a sandbox that could not be given back stays the janitor's. What
    concerns the sandbox is done by its host. Where that is lost, any worker judges the episode by the files that
    were kept.
    """
    errors: list[Exception] = []
    began = workflow.now()
    close = _close_request(spec, lease, ending, settle, place) if lease else None
    closed = await _kept(errors, _near(place, tuning, ClosingActivities.close, close)) if close else None
    unfit = _unfit(closed, errors)
    timings = {**timings, "close": took(began), **(closed.timings if closed else {})}
    trace = closed.trace if closed else None
    sandbox = None if place.state == "given_up" else place.sandbox
    host = _host_of(place)
    release = ReleaseRequest(lease=lease, sandbox=sandbox, quarantine=unfit, host=host)
    request = GradeRequest(spec=spec, ending=ending, trace=trace, timings=timings)
    grading = workflow.execute_activity_method(ClosingActivities.grade, request, **step_options(tuning))
    steps: list[Awaitable[Any]] = [_kept(errors, grading)]
    if lease or sandbox:
        steps.append(_kept(errors, _near(place, tuning, LeaseActivities.release, release)))
    summary: Summary | None = (await asyncio.gather(*steps))[0]
    if summary is None:
        raise ApplicationError(f"no outcome was recorded: {_cause(errors[0])}") from errors[0]
    for error in errors:
        workflow.logger.warning("cleanup of %s: %s", spec.episode_id, _cause(error))
    return summary


def _close_request(
    spec: EpisodeSpec, lease: LeaseRef, ending: Ending, settle: bool, place: SandboxPlace
) -> CloseRequest:
    return CloseRequest(
        spec=spec,
        lease=lease,
        ending=ending,
        settle=settle,
        sandbox=place.sandbox,
        earlier=place.earlier,
        given_up=place.state == "given_up",
        host=_host_of(place),
    )


def _host_of(place: SandboxPlace) -> str:
    """The host that has the sandbox; nothing where there is none any more."""
    return "" if place.state == "given_up" else place.permit.host


async def _near(
    place: SandboxPlace, tuning: Tuning, step: Callable[[Any, PlacedT], Awaitable[ResultT]], request: PlacedT
) -> ResultT:
    """Do it where the sandbox is. Without one, and where its host is lost, any worker does it."""
    if request.host:
        with suppress(HostLost):
            return await step_on_host(place.permit, tuning, step, request)
        request = request.model_copy(update={"host": ""})
    return await workflow.execute_activity_method(step, request, **step_options(tuning))


def _unfit(closed: CloseReport | None, errors: list[Exception]) -> str:
    """Why the namespace must be quarantined; empty when it may be recycled."""
    if closed is None:
        return f"it could not be closed: {_cause(errors[0])}"[:MAX_REASON] if errors else ""
    return f"{closed.unknown} outcomes are unknown" if closed.unknown else ""


async def _kept(errors: list[Exception], step: Awaitable[ResultT]) -> ResultT | None:
    try:
        return await step
    except Exception as error:
        errors.append(error)
        return None


def _cause(error: BaseException) -> str:
    return str(error.cause) if isinstance(error, ActivityError) and error.cause else str(error)
