"""Timeouts and retries of every activity, in one place."""

from datetime import timedelta

from temporalio.common import RetryPolicy
from temporalio.workflow import ActivityCancellationType, ActivityConfig

from schemas.slice import SliceRequest
from schemas.start import Tuning

RETRY = RetryPolicy(
    initial_interval=timedelta(milliseconds=200), backoff_coefficient=2.0, maximum_interval=timedelta(seconds=15)
)
"""Tried again for ever within ``schedule_to_close``; ``activities.failures`` says what is not."""

STEP = timedelta(minutes=10)
"""One attempt of a step around the turns. A lost worker is noticed by its heartbeat, long before."""

SLICE_MARGIN = timedelta(minutes=10)
"""What a slice may take beyond its policy's time: its calls, and waiting for a world that restarts."""


def step_options(tuning: Tuning) -> ActivityConfig:
    """Options of lease, close, grade and release."""
    return ActivityConfig(
        start_to_close_timeout=STEP,
        schedule_to_close_timeout=timedelta(seconds=tuning.patience_s),
        heartbeat_timeout=timedelta(seconds=tuning.heartbeat_s),
        retry_policy=RETRY,
    )


def on_queue(options: ActivityConfig, queue: str, start_s: float | None = None) -> ActivityConfig:
    """The options on another queue than the workflow's, to be taken up there within ``start_s``."""
    placed = options.copy()
    placed["task_queue"] = queue
    if start_s is not None:
        placed["schedule_to_start_timeout"] = timedelta(seconds=start_s)
    return placed


def slice_options(request: SliceRequest, tuning: Tuning) -> ActivityConfig:
    """Options of one slice: the wall budget bounds it, an outage does not end it.

    A cancellation is awaited, so that no turn goes on while the episode is being sealed.
    """
    limits = request.spec.limits
    return ActivityConfig(
        start_to_close_timeout=timedelta(seconds=request.seconds + limits.turn_s) + SLICE_MARGIN,
        schedule_to_close_timeout=timedelta(seconds=limits.wall_s + tuning.patience_s),
        heartbeat_timeout=timedelta(seconds=tuning.heartbeat_s),
        retry_policy=RETRY,
        cancellation_type=ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
    )
