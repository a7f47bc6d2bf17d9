"""The one place that decides what Temporal tries again."""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from temporalio import activity
from temporalio.exceptions import ApplicationError

from tiltyard.errors import (
    BadInput,
    DeliveryConflict,
    EnvironmentFailed,
    Fenced,
    GraderFailed,
    InputMissing,
    NotPristine,
    NotSettled,
    PolicyFailed,
    Replaced,
    SandboxLost,
    SandboxUnavailable,
    TiltyardError,
)

RETRYABLE: dict[type[TiltyardError], bool] = {
    NotPristine: False,  # a template that has changed stays changed
    NotSettled: False,  # a refusal is recorded, and stays
    SandboxLost: False,  # what is gone stays gone
    SandboxUnavailable: False,  # what the machine cannot make it will not make in a minute either
    EnvironmentFailed: True,  # the environment may come back
    Replaced: True,  # the attempt that took the token does the work; this one only makes room
    Fenced: False,
    BadInput: False,
    InputMissing: False,  # an object that is gone or damaged stays so until somebody puts it back
    DeliveryConflict: False,
    PolicyFailed: False,
    GraderFailed: False,
}

UNEXPECTED_ATTEMPTS = 10
"""An error that is none of ours is tried this often: a passing fault heals, a bug ends the step."""

MAX_MESSAGE = 1000
"""Characters of an error's message that go into workflow history. Causes do not: they would go in uncut (I10)."""

log = logging.getLogger(__name__)


@asynccontextmanager
async def translated() -> AsyncIterator[None]:
    """Turn what an activity raises into a failure that says whether to try again."""
    try:
        yield
    except ApplicationError:
        raise
    except TiltyardError as error:
        raise _failure(error, retryable=_retryable(error)) from None
    except Exception as error:
        log.exception("an activity failed unexpectedly")
        raise _failure(error, retryable=activity.info().attempt < UNEXPECTED_ATTEMPTS) from None


def _retryable(error: TiltyardError) -> bool:
    """The first row that fits decides."""
    return next((retry for kind, retry in RETRYABLE.items() if isinstance(error, kind)), False)


def _failure(error: Exception, *, retryable: bool) -> ApplicationError:
    """Its kind is in a field of its own, and whoever tells of it puts that before the message."""
    return ApplicationError(str(error)[:MAX_MESSAGE], type=type(error).__name__, non_retryable=not retryable)
