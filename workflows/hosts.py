"""Work on the queue of a host, which may be slow or lost. Nothing waits for it for ever, and nothing is guessed."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError, TimeoutError, TimeoutType
from temporalio.workflow import ActivityConfig, ActivityHandle

from activities.hosting import HostActivities
from schemas.host import ELSEWHERE, HostCheck, Permit, host_queue
from schemas.start import Tuning
from workflows.options import on_queue, step_options

ParamT = TypeVar("ParamT")
ResultT = TypeVar("ResultT")


class HostLost(Exception):
    """The host has been silent for too long: what is on its queue will not be done."""


async def on_host(
    permit: Permit,
    tuning: Tuning,
    options: ActivityConfig,
    begin: Callable[[ActivityConfig], ActivityHandle[ResultT]],
) -> ResultT:
    """What the activity gives that ``begin`` schedules with the options, on the queue of the host.

    While that is the only one it is reached by the queue of all, and sooner: the server hands the activity out with
    the workflow task that schedules it. Another worker, if one comes, passes it on.

    That it is not taken up in time is only a reason to look: a host that is there is given it again. Raises
    ``HostLost``, and ``ActivityError`` with what the activity raises.
    """
    if permit.alone:
        try:
            return await begin(options)
        except ActivityError as error:
            if not _was_passed_on(error):
                raise
    placed = on_queue(options, host_queue(workflow.info().task_queue, permit.host), tuning.start_s)
    while True:
        try:
            return await begin(placed)
        except ActivityError as error:
            if not was_not_taken_up(error):
                raise
        if await _is_lost(permit.host, tuning):
            raise HostLost(f"the host {permit.host} is lost")


async def step_on_host(
    permit: Permit, tuning: Tuning, step: Callable[[Any, ParamT], Awaitable[ResultT]], request: ParamT
) -> ResultT:
    """A step around the turns, on the host. Raises as ``on_host`` does."""
    return await on_host(
        permit,
        tuning,
        step_options(tuning),
        lambda placed: workflow.start_activity_method(step, request, **placed),
    )


def was_not_taken_up(error: ActivityError) -> bool:
    """Whether no worker has begun it in time."""
    return isinstance(error.cause, TimeoutError) and error.cause.type is TimeoutType.SCHEDULE_TO_START


def _was_passed_on(error: ActivityError) -> bool:
    return isinstance(error.cause, ApplicationError) and error.cause.type == ELSEWHERE


async def _is_lost(host: str, tuning: Tuning) -> bool:
    check = HostCheck(host=host, outage_s=tuning.outage_s)
    return await workflow.execute_activity_method(HostActivities.is_lost, check, **step_options(tuning))
