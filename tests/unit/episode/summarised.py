"""Turns of any kind, and what a rule for summaries must keep to, whatever the turns are."""

from collections.abc import Callable, Sequence

from hypothesis import strategies as st

from schemas.base import JsonObject, canonical
from schemas.decision import Call, Decision
from schemas.journal import TurnRecord
from schemas.observation import Observation
from schemas.task import Limits, Task, ViewLimit
from schemas.view import View
from tests.workflow.arena import tally_task
from tiltyard.episode.progress import Progress

LEAST = 2_000
"""The smallest limit there is, in tokens."""


def limited(tokens: int = LEAST, **changes: object) -> Task:
    limits = Limits(turns=10_000, tool_calls=50_000)
    return tally_task(**{"view": ViewLimit(tokens=tokens), "limits": limits, **changes})


def observations(tool: str) -> st.SearchStrategy[Observation]:
    return st.builds(
        Observation,
        tool=st.just(tool),
        status=st.sampled_from(["ok", "ok", "error", "timeout"]),
        content=st.one_of(
            st.none(), st.text(max_size=40), st.integers(0, 9).map(lambda n: {"text": "ü" * 200 * n})
        ),
        code=st.sampled_from(["", "not_found", "sandbox_lost", "c" * 200]),
        message=st.sampled_from(["", "no such thing"]),
    )


@st.composite
def turn_records(draw: st.DrawFn) -> TurnRecord:
    if draw(st.integers(0, 9)) == 0:
        asked = Decision(ask=draw(st.text(min_size=1, max_size=300)))
        return TurnRecord(turn=0, decision=asked, observations=(draw(observations("ask")),))
    tools = draw(st.lists(st.sampled_from(["add", "read", "get_receipt"]), min_size=1, max_size=3))
    arguments: st.SearchStrategy[JsonObject] = st.fixed_dictionaries(
        {"name": st.text(max_size=20)},
        optional={"operation_id": st.sampled_from("abc"), "long": st.just("x" * 1_500)},
    )
    return TurnRecord(
        turn=0,
        decision=Decision(
            thought=draw(st.text(max_size=100)),
            calls=tuple(Call(tool=tool, arguments=draw(arguments)) for tool in tools),
            tokens=draw(st.integers(0, 100)),
            memo=draw(st.none() | st.integers()),
        ),
        observations=tuple(draw(observations(tool)) for tool in tools),
    )


def histories(most: int = 40) -> st.SearchStrategy[list[TurnRecord]]:
    numbered = st.lists(turn_records(), min_size=1, max_size=most)
    return numbered.map(lambda found: [one.model_copy(update={"turn": n}) for n, one in enumerate(found)])


MakeProgress = Callable[[Task, Sequence[TurnRecord]], Progress]


def views(task: Task, turns: Sequence[TurnRecord], sliced: int = 0, make: MakeProgress = Progress) -> list[View]:
    """The view before each turn and after the last. With ``sliced``, what is known is made anew every so many
    turns, as a slice on another worker does it."""
    progress = make(task, ())
    seen = [progress.view((), 0, "")]
    for number, turn in enumerate(turns):
        if sliced and number % sliced == 0:
            progress = make(task, turns[:number])
        progress.add(turn)
        seen.append(progress.view((), 0, ""))
    return seen


def size_of(view: View) -> int:
    """The bytes that count for the limit."""
    summary = b"" if view.summary is None else canonical(view.summary)
    return len(summary) + sum(len(canonical(turn)) + 1 for turn in view.transcript)
