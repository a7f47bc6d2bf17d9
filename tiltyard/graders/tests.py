"""Tests: what the examination of the agent's sources said.

The runs were made outside of the agent's sandbox (``tiltyard.episode.examination``); here they are facts.
"""

from collections.abc import Iterator

from schemas.contract import TestsContract
from schemas.exam import TestRun
from tiltyard.graders.trial import Trial

NAMED = 3
"""Tests that a sentence names at most."""


def check_tests(contract: TestsContract, trial: Trial) -> tuple[str, ...]:
    exam = trial.exam_of(contract)
    if exam is None:
        return ("there are no files that could be examined",)
    refused = (f"{path} was not taken: it is no regular file of its own" for path in exam.refused)
    return (
        *(f"visible tests: {why}" for why in failings(exam.visible)),
        *(f"hidden tests: {why}" for why in failings(exam.hidden)),
        *(() if exam.visible.passed and exam.hidden.passed else refused),
    )


def failings(run: TestRun) -> Iterator[str]:
    """Why a run did not pass; nothing when it did."""
    if run.passed:
        return
    told = {report.test for report in run.reports}
    failed = [f"{one.test} {one.outcome} ({one.detail})" for one in run.reports if one.outcome != "passed"]
    missing = [test for test in run.expected if test not in told]
    yield from _some("failed", failed)
    yield from _some("did not report", missing)
    yield from _some("reported, and are no tests of the task", sorted(told - set(run.expected)))
    if len(run.reports) > len(told):
        yield "a test reported more than once"
    yield from _some("parts of the test framework were changed", run.patched)
    if not run.finished:
        yield f"the run ended early: {_end(run)}"
    elif run.exit_code != 0 and not failed:
        yield f"no test was reported as failed, and the run says otherwise: {_end(run)}"


def _some(what: str, names: tuple[str, ...] | list[str]) -> Iterator[str]:
    if names:
        more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
        yield f"{what}: {', '.join(names[:NAMED])}{more}"


def _end(run: TestRun) -> str:
    if run.timed_out:
        return "it took too long"
    memory = ", out of memory" if run.out_of_memory else ""
    return (f"signal {run.signal}" if run.signal else f"exit code {run.exit_code}") + memory
