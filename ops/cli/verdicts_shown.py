"""Verdicts on replays as a person reads them."""

import re
from collections.abc import Iterator, Sequence

from ops.cli.called import command_line
from ops.cli.counting import counted
from ops.cli.folded import Line, show_lines
from ops.cli.output import Output
from schemas.base import JsonValue
from schemas.replay import Outcome, Tally, Verdict
from tiltyard.reopen.conditions import in_words, leaves_that_differ

MAX_LEAVES = 12
"""Parts of a difference that are shown; the JSON has all."""

CAUSES = {
    "tool_interface_changed": "the interface of a tool has changed",
    "environment_changed": "the environment has changed",
    "judging_changed": "what it is judged by has changed",
    "missing_input": "something that the episode is made again from is missing",
    "nondeterminism": "nothing that is known differs: the episode is not deterministic",
}

PARTS = {
    "decision": "another decision",
    "observation": "the call shows something else",
    "fault": "another planned fault fired",
    "clock": "the clock stands elsewhere",
    "change": "the world is changed otherwise",
    "receipts": "other receipts",
    "jobs": "other deferred jobs",
    "files": "the graded files differ",
    "end": "another end",
    "digests": "other digests",
    "grade": "another grade",
    "drain": "another drain report",
    "input": "it cannot be made again",
}
"""What diverged, in words."""

SHORT = 80
"""Characters of both sides that stand in one line."""

DIGEST = re.compile(r"(sha256:[0-9a-f]{12})[0-9a-f]{52}")


def show_verdict(out: Output, verdict: Verdict, *, strict: bool) -> None:
    """One verdict in full."""
    show_lines(out, _lines(verdict, strict))


def _lines(verdict: Verdict, strict: bool) -> Iterator[Line]:
    if not verdict.replay:
        yield Line(f"{verdict.episode} cannot be made again")
    else:
        yield Line(f"replay    {verdict.replay} of {verdict.episode}")
    if verdict.diverged:
        yield from _divergence(verdict)
    else:
        minded = "the digests" if verdict.not_compared else "digests, grade and drain report"
        included = f"; {minded} are the same too" if strict else ""
        yield Line(f"same      {counted(verdict.turns, 'turn')} and what they left{included}", hang=12)
    for number, one in enumerate(verdict.differs):
        yield Line(f"{'differs' if not number else '':<10}{one.what}: {_in_line(one.left, one.right)}", hang=12)
    for number, part in enumerate(verdict.not_compared):
        yield Line(f"{'unknown' if not number else '':<10}not compared: {part}", hang=12)
    if verdict.diverged and verdict.replay:
        yield Line(
            f"see       {command_line('episodes', 'show', verdict.episode, '--diff', verdict.replay)}", hang=12
        )


def _divergence(verdict: Verdict) -> Iterator[Line]:
    tool = f" ({verdict.tool})" if verdict.tool else ""
    yield Line(f"diverged  {where(verdict)}{tool}: {PARTS[str(verdict.what)]}", hang=12)
    if verdict.what == "input":
        yield Line(f"lacks     {in_words(verdict.left)}: {in_words(verdict.right)}", hang=12)
    leaves = [] if verdict.what == "input" else list(leaves_that_differ(verdict.left, verdict.right))
    for path, left, right in leaves[:MAX_LEAVES]:
        yield from _sides(path, left, right)
    if len(leaves) > MAX_LEAVES:
        yield Line(f"and {len(leaves) - MAX_LEAVES} parts more, in the answer with --json", 10)
    yield Line(f"cause     {CAUSES[str(verdict.cause)]} ({verdict.cause})", hang=12)


def _sides(path: str, left: JsonValue, right: JsonValue) -> Iterator[Line]:
    """Both sides of one part; of texts of several lines the first line that differs."""
    line = _first_line(left, right)
    if line is not None:
        number, left, right = line
        path = f"{path}, line {number}"
    words = in_words(left) or "(empty)", in_words(right) or "(empty)"
    if path and sum(map(len, words)) <= SHORT:
        yield Line(f"{path}: {_in_line(*words)}", 10)
        return
    if path:
        yield Line(path, 10)
    yield Line(f"recorded  {words[0]}", 12, hang=12)
    yield Line(f"replayed  {words[1]}", 12, hang=12)


def _in_line(left: str, right: str) -> str:
    """Both sides, with as much of digests as tells them apart."""
    return DIGEST.sub(r"\1…", f"{left} -> {right}")


def _first_line(left: JsonValue, right: JsonValue) -> tuple[int, JsonValue, JsonValue] | None:
    if not (isinstance(left, str) and isinstance(right, str) and "\n" in left + right):
        return None
    lines, others = left.splitlines(), right.splitlines()
    number = next((at for at, pair in enumerate(zip(lines, others, strict=False)) if pair[0] != pair[1]), None)
    number = min(len(lines), len(others)) if number is None else number
    one, other = (side[number] if number < len(side) else None for side in (lines, others))
    return number + 1, one, other


def where(told: Outcome | Verdict) -> str:
    """The place of a divergence in words."""
    if told.turn is None:
        return "before the first turn" if told.what == "input" else "after the last turn"
    return f"turn {told.turn}" + ("" if told.call is None else f", call {told.call}")


def show_tally(out: Output, tally: Tally, verdicts: Sequence[Verdict]) -> None:
    """A row for each replay, then what they come to."""
    rows = [
        (
            one.replay or "-",
            "diverged" if one.diverged else "the same",
            where(one) if one.diverged else "",
            one.what or "",
            one.cause or "",
        )
        for one in verdicts
    ]
    out.table(("REPLAY", "VERDICT", "WHERE", "WHAT", "CAUSE"), rows)
    failed = f", {tally.failed} came to no end of their own" if tally.failed else ""
    out.show(f"{tally.agree} of {counted(tally.times, 'replay')} agree with {tally.episode}{failed}")
    for one in tally.outcomes:
        if one.diverged:
            out.show(f"{len(one.replays)} first differ at {where(one)}: {PARTS[str(one.what)]}")
    if len(verdicts) > 1:
        among = "flaky: the replays differ among themselves" if tally.flaky else "the replays all did the same"
        out.show(among)
