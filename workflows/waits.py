"""Waits of an episode, in which others may have the slot of its sandbox."""

from collections.abc import Awaitable, Callable
from datetime import datetime

from temporalio import workflow

from workflows.sandbox import EpisodeSandbox


async def hold(
    over: Callable[[], bool],
    seconds: float | None,
    keep_s: float | None,
    longest_s: float,
    sandbox: EpisodeSandbox,
    give_up: Callable[[], Awaitable[None]],
) -> None:
    """Wait until it is over, for ``seconds`` at most. In a wait that is longer than ``longest_s`` the sandbox is
    given up: after that time, or after ``keep_s``."""
    began = workflow.now()
    long = seconds is None or seconds > longest_s
    if long and sandbox.may_give_up:
        if await _within(over, longest_s if keep_s is None else keep_s):
            return
        await give_up()
    await _within(over, None if seconds is None else seconds - since(began))


async def _within(condition: Callable[[], bool], seconds: float | None) -> bool:
    """Whether it has come to be, in time."""
    if seconds is not None and seconds <= 0:
        return condition()
    try:
        await workflow.wait_condition(condition, timeout=seconds)
    except TimeoutError:
        return False
    return True


def since(began: datetime) -> float:
    """Seconds since then."""
    return (workflow.now() - began).total_seconds()


async def timed(timings: dict[str, float], phase: str, step: Awaitable[None]) -> None:
    """Note how long the step takes, also where it fails.

    Not in a ``finally``: that would run as well when a worker puts the workflow out of its memory, where there is
    no time of the workflow to ask for.
    """
    began = workflow.now()
    try:
        await step
    except Exception:
        timings[phase] = took(began)
        raise
    timings[phase] = took(began)


def took(began: datetime) -> float:
    """Seconds since then, to the millisecond, as the phases of an episode are told."""
    return round(since(began), 3)
