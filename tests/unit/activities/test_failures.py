"""What Temporal tries again, and how much of an error goes into workflow history (I10)."""

import pytest
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from activities.failures import MAX_MESSAGE, translated
from tiltyard import errors

CASES: list[tuple[Exception, bool]] = [
    (errors.WorldUnreachable("away"), True),
    (errors.EnvironmentFailed("disk"), True),
    (errors.Replaced("by another"), True),
    (errors.NotPristine("changed"), False),
    (errors.LateWrite("sealed"), False),
    (errors.JournalClosed("sealed"), False),
    (errors.BadTask("wrong", field="id"), False),
    (errors.BadPolicy("wrong"), False),
    (errors.PolicyFailed("raised"), False),
    (errors.GraderFailed("raised"), False),
    (errors.DeliveryConflict("two"), False),
    (KeyError("a bug, or a passing fault"), True),
]


async def failure_of(error: Exception) -> ApplicationError:
    async def raising() -> None:
        async with translated():
            raise error

    with pytest.raises(ApplicationError) as raised:
        await ActivityEnvironment().run(raising)
    return raised.value


@pytest.mark.parametrize(("error", "retried"), CASES, ids=lambda value: type(value).__name__)
async def test_each_error_is_tried_again_or_not(error: Exception, retried: bool) -> None:
    failure = await failure_of(error)
    assert (failure.type, failure.non_retryable) == (type(error).__name__, not retried)


async def test_the_kind_of_an_error_is_told_once() -> None:
    failure = await failure_of(errors.SandboxUnavailable("docker: no engine answers"))
    assert str(failure) == "SandboxUnavailable: docker: no engine answers"


async def test_a_long_error_is_cut_and_brings_no_cause_into_history() -> None:
    failure = await failure_of(errors.BadInput("x" * 300_000))
    assert len(failure.message) <= MAX_MESSAGE
    assert failure.__cause__ is None
    assert failure.__suppress_context__
