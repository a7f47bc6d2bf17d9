"""Why a replay diverged: what differed in the conditions, and the class of cause that follows from it."""

from collections.abc import Iterator, Sequence
from itertools import chain

from schemas.journal import TurnRecord
from schemas.recording import Recording
from schemas.replay import Cause, Difference, Differing
from tiltyard.reopen.conditions import environment_differs, judging_differs, tools_differ
from tiltyard.trace import Trace


def conditions_differ(left: Trace, right: Trace) -> tuple[Differing, ...]:
    """All that was not the same for the two: tools, environment, and what is compared and judged by."""
    return (
        *chain.from_iterable(tools_differ(left, right).values()),
        *environment_differs(left, right),
        *judging_differs(left, right),
    )


def cause_of(found: Difference, left: Trace, right: Trace, recording: Recording | None = None) -> Cause:
    """The class of a divergence of ``right``, a replay of ``left``; the first that fits.

    ``missing_input``: the recording lacks the answer to a question. ``tool_interface_changed``: the tool of the
    diverging call is another one now. ``environment_changed``: template, faults, sandbox, limits or another
    condition is. A changed tool that was called before then comes next: its effects may be seen late.
    ``nondeterminism`` is what is left: nothing that is known differs.
    """
    if recording is not None and _lacks_answer(found, left, recording):
        return "missing_input"
    tools = tools_differ(left, right)
    if tools.keys() & set(_diverging_tools(found, left, right)):
        return "tool_interface_changed"
    if environment_differs(left, right):
        return "environment_changed"
    if tools.keys() & set(_tools_until(found.turn, left)):
        return "tool_interface_changed"
    return "nondeterminism"


def tool_of(found: Difference, left: Trace) -> str:
    """The tool of the call that a difference is of; nothing where it is of none, or of several."""
    turns = left.evidence.turns
    if found.turn is None or found.call is None or found.turn >= len(turns):
        return ""
    calls = turns[found.turn].decision.calls
    return calls[found.call].tool if found.call < len(calls) else ""


def _lacks_answer(found: Difference, left: Trace, recording: Recording) -> bool:
    """Whether a question up to there was answered by nobody for want of an answer that once was given."""
    until = _turns_until(found.turn, left)
    asked = sum(turn.decision.ask is not None for turn in until if turn.observations is not None)
    return asked > len(recording.answers)


def _turns_until(turn: int | None, trace: Trace) -> Sequence[TurnRecord]:
    return trace.evidence.turns if turn is None else trace.evidence.turns[: turn + 1]


def _tools_until(turn: int | None, trace: Trace) -> Iterator[str]:
    for one in _turns_until(turn, trace):
        yield from (call.tool for call in one.decision.calls)


def _diverging_tools(found: Difference, left: Trace, right: Trace) -> Iterator[str]:
    """The tools that the difference is of: of its call, or of each call of its turn; of a change, whichever made
    it. A call of no known tool is answered with all that there are."""
    if found.what == "change":
        yield from (str(side["tool"]) for side in (found.left, found.right) if isinstance(side, dict))
    if found.turn is None or found.turn >= len(left.evidence.turns):
        return
    turn = left.evidence.turns[found.turn]
    calls = turn.decision.calls if found.call is None else turn.decision.calls[found.call : found.call + 1]
    yield from (call.tool for call in calls)
    observed = turn.observations or ()
    if any(shown.code == "unknown_tool" for shown in observed):
        yield from (tool.name for tool in (*left.tools, *right.tools))
