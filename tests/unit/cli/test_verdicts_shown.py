"""Verdicts on replays as they are printed, and what several replays come to."""

from typing import Any, get_args

import pytest

from ops.cli.output import Output
from ops.cli.verdicts_shown import CAUSES, PARTS, show_tally, show_verdict
from schemas.episode import Digests
from schemas.replay import Cause, Compared, Differing, Verdict
from tiltyard.reopen.tallies import tally_of
from tiltyard.reopen.verdicts import missing

SAME: dict[str, Any] = {"episode": "e-1", "replay": "e-2", "diverged": False, "turns": 3}
DIVERGED: dict[str, Any] = {
    "episode": "e-1",
    "replay": "e-2",
    "diverged": True,
    "turn": 4,
    "call": 0,
    "tool": "look",
    "what": "observation",
    "cause": "nondeterminism",
    "turns": 6,
}


def diverged(left: Any, right: Any) -> Verdict:
    return Verdict(**DIVERGED, left=left, right=right)


def shown(capsys: pytest.CaptureFixture[str], verdict: Verdict, *, strict: bool = False) -> list[str]:
    show_verdict(Output(as_json=False), verdict, strict=strict)
    return capsys.readouterr().out.splitlines()


def test_nothing_that_differs_says_how_much_was_compared(capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(capsys, Verdict(**SAME)) == ["replay    e-2 of e-1", "same      3 turns and what they left"]
    (_, strictly) = shown(capsys, Verdict(**SAME), strict=True)
    assert strictly.endswith("; digests, grade and drain report are the same too")


def test_what_could_not_be_compared_and_what_differs_is_told_where_nothing_diverged(
    capsys: pytest.CaptureFixture[str],
) -> None:
    image = Differing(what="sandbox.image id", left=f"sha256:{'a' * 64}", right=f"sha256:{'b' * 64}")
    lines = shown(capsys, Verdict(**SAME, differs=(image, image), not_compared=("turn 3, which was open",)))
    assert lines[2:] == [
        "differs   sandbox.image id: sha256:aaaaaaaaaaaa… -> sha256:bbbbbbbbbbbb…",
        "          sandbox.image id: sha256:aaaaaaaaaaaa… -> sha256:bbbbbbbbbbbb…",
        "unknown   not compared: turn 3, which was open",
    ]


def test_a_divergence_is_told_part_by_part_with_its_cause(capsys: pytest.CaptureFixture[str]) -> None:
    left = {"status": "ok", "message": "", "content": {"total": 1, "long": "x" * 100}}
    right = {"status": "error", "message": "no", "content": {"total": 1, "long": "y" * 100}}
    lines = shown(capsys, diverged(left, right))
    assert lines[1] == "diverged  turn 4, call 0 (look): the call shows something else"
    assert lines[2:5] == [
        "          status: ok -> error",
        "          message: (empty) -> no",
        "          content.long",
    ]
    assert lines[5].split() == ["recorded", "x" * 100]
    assert lines[7].startswith("cause     nothing that is known differs")
    assert lines[8].startswith("see  ")
    assert lines[8].endswith("episodes show e-1 --diff e-2")


def test_of_long_texts_the_first_line_that_differs_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    one, other = ({"stdout": f"begun\n{word}\nended\n"} for word in ("passed", "failed"))
    lines = shown(capsys, diverged(one, other))
    assert lines[2] == "          stdout, line 2: passed -> failed"
    shorter = shown(capsys, diverged(one, {"stdout": "begun\npassed\n"}))
    assert shorter[2] == "          stdout, line 3: ended -> none"


def test_many_parts_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    left, right = ({str(number): number + more for number in range(30)} for more in (0, 1))
    assert "          and 18 parts more, in the answer with --json" in shown(capsys, diverged(left, right))


def test_what_cannot_be_made_again_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    lines = shown(capsys, missing("e-1", "the trace sha256:0", "is missing"))
    assert lines[:2] == ["e-1 cannot be made again", "diverged  before the first turn: it cannot be made again"]
    assert lines[2] == "lacks     the trace sha256:0: is missing"
    assert lines[-1].startswith("cause     something that the episode is made again from is missing")


def test_every_part_and_cause_has_words() -> None:
    assert {part for some in get_args(Compared) for part in get_args(some)} == PARTS.keys()
    assert set(get_args(Cause)) == CAUSES.keys()


def digests(replay: str) -> dict[str, Digests]:
    return {"episode": Digests(trace="a"), "replay": Digests(trace=replay)}


def verdicts(*traces: str) -> list[Verdict]:
    """Replays whose trace digests are these; the original's is ``a``."""
    return [
        Verdict.model_validate(
            {**(SAME if trace == "a" else DIVERGED), "replay": f"e-{number}", "digests": digests(trace)}
        )
        for number, trace in enumerate(traces)
    ]


@pytest.mark.parametrize(
    ("traces", "agree", "flaky"), [("aaa", 3, False), ("aab", 2, True), ("bb", 0, False), ("bc", 0, True)]
)
def test_replays_that_differ_among_themselves_are_flaky(traces: str, agree: int, flaky: bool) -> None:
    tally = tally_of("e-0", verdicts(*traces), failed=1)
    assert (tally.times, tally.agree, tally.diverged) == (len(traces) + 1, agree, len(traces) - agree)
    assert tally.flaky is flaky
    assert sum(len(one.replays) for one in tally.outcomes) == len(traces)


def test_a_tally_is_a_table_and_what_it_comes_to(capsys: pytest.CaptureFixture[str]) -> None:
    found = verdicts("a", "b", "a")
    show_tally(Output(as_json=False), tally_of("e-0", found, failed=1), found)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["REPLAY", "VERDICT", "WHERE", "WHAT", "CAUSE"]
    assert lines[2].split() == ["e-1", "diverged", "turn", "4,", "call", "0", "observation", "nondeterminism"]
    assert lines[4:] == [
        "2 of 4 replays agree with e-0, 1 came to no end of their own",
        "1 first differ at turn 4, call 0: the call shows something else",
        "flaky: the replays differ among themselves",
    ]
