"""A strict replay of an episode that was stopped in a turn: what is left out of it makes no divergence."""

from typing import Any

import pytest

from ops.cli.output import Output
from ops.cli.verdicts_shown import show_verdict
from schemas.world import DrainReport
from tests.unit.reopen.played import graded
from tests.unit.reopen.test_comparing import LOST, opened, played, replayed, shown, with_evidence
from tiltyard.reopen.recording import recording_of
from tiltyard.reopen.verdicts import Played, verdict_of
from tiltyard.trace import Trace

UNGRADED = "the grade and the drain report, which are of what was left out too"


def outcome(trace: Trace) -> Played:
    return Played(graded(trace), trace)


def strictly(left: Played, right: Played) -> Any:
    return verdict_of(left, right, recording_of(left.trace), strict=True)


@pytest.mark.parametrize("reading", ["committed", "unknown", "absent"])
def test_an_open_turn_makes_it_no_nondeterminism(reading: str, capsys: pytest.CaptureFixture[str]) -> None:
    trace = opened(played(LOST, "late_callback"), reading)
    left, right = outcome(with_evidence(trace, drain=DrainReport(in_flight=1))), outcome(replayed(trace))
    assert left.result.counts != right.result.counts
    verdict = strictly(left, right)
    assert (verdict.diverged, verdict.what, verdict.cause) == (False, None, None)
    assert verdict.not_compared[-1] == UNGRADED
    show_verdict(Output(as_json=False), verdict, strict=True)
    said = capsys.readouterr().out
    assert "same      4 turns and what they left; the digests are the same too\n" in said
    assert f"not compared: {UNGRADED}\n" in said


def test_what_comes_before_it_and_the_digests_are_minded_all_the_same() -> None:
    trace = opened(played(LOST, "late_callback"), "absent")
    left, right = outcome(trace), outcome(replayed(trace))
    assert strictly(left, outcome(shown(3, 0, "other")(right.trace))).what == "observation"
    digests = right.result.digests.model_copy(update={"task": "sha256:other"})
    other = Played(right.result.model_copy(update={"digests": digests}), right.trace)
    assert (strictly(left, other).what, strictly(left, other).cause) == ("digests", "environment_changed")


def test_without_strictness_nothing_is_said_of_grades() -> None:
    trace = opened(played(LOST, "late_callback"), "absent")
    verdict = verdict_of(outcome(trace), outcome(replayed(trace)), recording_of(trace))
    assert UNGRADED not in verdict.not_compared


def test_where_everything_is_compared_grades_are() -> None:
    left = outcome(played(LOST, "late_callback"))
    more = left.result.counts.model_copy(update={"late_writes": 2})
    other = Played(left.result.model_copy(update={"counts": more}), left.trace)
    verdict = strictly(left, other)
    assert (verdict.what, verdict.cause, verdict.not_compared) == ("grade", "nondeterminism", ())
