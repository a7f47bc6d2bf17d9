"""Histories that are summarised for the policy: by a rule that is a function of the turns alone."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from schemas.base import digest_of
from schemas.decision import Call, Decision
from schemas.journal import TurnRecord
from schemas.observation import Observation
from schemas.task import Task
from schemas.view import HistorySummary, Recalled, ToolCount, View
from tests.unit.episode.summarised import LEAST, MakeProgress, histories, limited, size_of, views
from tests.workflow.arena import tally_task
from tiltyard.episode.progress import Progress
from tiltyard.suite import shipped

LIMITS = st.sampled_from([LEAST, 2_500, 6_000])


def read(turn: int, size: int = 300) -> TurnRecord:
    call = Call(tool="read", arguments={"name": f"t{turn}"})
    shown = Observation(tool="read", status="ok", content={"total": turn, "text": "x" * size})
    return TurnRecord(turn=turn, decision=Decision(calls=(call,)), observations=(shown,))


def sent(turn: int, tool: str, status: str, code: str = "", **arguments: str) -> TurnRecord:
    call = Call.model_validate({"tool": tool, "arguments": arguments})
    shown = Observation.model_validate({"tool": tool, "status": status, "code": code})
    return TurnRecord(turn=turn, decision=Decision(calls=(call,)), observations=(shown,))


def last_summary(task: Task, turns: Sequence[TurnRecord]) -> HistorySummary:
    summary = Progress(task, turns).view((), 0, "").summary
    assert summary is not None, "the history has not passed the limit"
    return summary


def then_many(*turns: TurnRecord, more: int = 40) -> list[TurnRecord]:
    return [*turns, *(read(number) for number in range(len(turns), len(turns) + more))]


@settings(deadline=None, max_examples=25)
@given(histories(), LIMITS, st.integers(1, 7))
def test_views_are_equal_however_the_turns_were_sliced(turns: list[TurnRecord], tokens: int, sliced: int) -> None:
    task = limited(tokens)
    assert views(task, turns) == views(task, turns, sliced)


@settings(deadline=None, max_examples=25)
@given(histories(), LIMITS)
def test_what_a_view_shows(turns: list[TurnRecord], tokens: int) -> None:
    """Every turn is in the transcript or summarised; none comes back; the limit is kept wherever it can be."""
    task = limited(tokens)
    seen = views(task, turns)
    for number, view in enumerate(seen):
        summarised = view.summary.turns if view.summary is not None else 0
        assert summarised + len(view.transcript) == number == view.turn
        assert [turn.decision for turn in view.transcript] == [
            turn.decision.without_memo() for turn in turns[summarised:number]
        ]
        assert size_of(view) <= tokens * 4 or len(view.transcript) <= 1
    for before, after in pairwise(seen):
        if before.summary is not None:
            assert after.summary is not None
            assert after.summary.turns >= before.summary.turns
        if after.summary != before.summary:
            assert after.summary is not None
            assert (after.summary.goal, after.summary.budgets) == (task.instruction, after.budgets)
            assert after.summary.rule == "recent-1"


@settings(deadline=None, max_examples=25)
@given(histories())
def test_a_lost_reply_is_told_whatever_else_happened(turns: list[TurnRecord]) -> None:
    """The newest call in doubt has its room, with all that it takes to send it again."""
    lost = sent(len(turns), "add", "timeout", name="apples", operation_id="mine")
    newest = last_summary(limited(), then_many(*turns, lost)).in_doubt[-1]
    assert (newest.turn, newest.tool, newest.arguments) == (lost.turn, "add", lost.decision.calls[0].arguments)


def test_an_operation_is_in_doubt_until_an_ok_under_its_id() -> None:
    lost = sent(0, "add", "timeout", name="apples", operation_id="mine")
    pending = sent(1, "get_receipt", "error", code="receipt_pending", operation_id="mine")
    (doubt,) = last_summary(limited(), then_many(lost, pending)).in_doubt
    assert (doubt.turn, doubt.tool, doubt.observation.code) == (0, "add", "receipt_pending")
    told = sent(2, "get_receipt", "ok", operation_id="mine")
    again = sent(3, "add", "timeout", name="apples", operation_id="mine")
    summary = last_summary(limited(), then_many(lost, pending, told, again))
    assert summary.in_doubt == ()
    assert [(one.turn, one.tool, one.observation.status) for one in summary.operations] == [(0, "add", "ok")]


def test_a_command_of_a_lost_sandbox_is_in_doubt_and_an_equal_call_tells() -> None:
    lost = sent(0, "shell", "error", code="sandbox_lost", command="make")
    assert [one.tool for one in last_summary(limited(), then_many(lost)).in_doubt] == ["shell"]
    again = sent(1, "shell", "ok", command="make")
    assert last_summary(limited(), then_many(lost, again)).in_doubt == ()


def test_what_people_answered_is_told() -> None:
    asked = TurnRecord(
        turn=0,
        decision=Decision(ask="May I order?"),
        observations=(Observation(tool="ask", status="ok", content="yes"),),
    )
    (told,) = last_summary(limited(), then_many(asked, more=400)).answers
    assert (told.turn, told.question, told.observation.content) == (0, "May I order?", "yes")


def test_calls_are_counted_by_outcome() -> None:
    refused = [sent(n, "add", "error", code="no_such_tally", name=str(n)) for n in range(3)]
    summary = last_summary(limited(), then_many(*refused))
    counts = {one.tool: one for one in summary.calls}
    assert counts["add"].errors == {"no_such_tally": 3}
    assert counts["read"].ok == summary.turns - 3


def test_what_is_remembered_does_not_grow_with_the_turns() -> None:
    def weight(turns: int) -> int:
        progress = Progress(limited(), [read(number) for number in range(turns)])
        return len(progress._history.turns) + len(progress._history._memory._calls)  # type: ignore[attr-defined]

    assert weight(2_000) <= weight(400) + 30


def test_long_texts_are_cut_and_what_is_missing_is_counted() -> None:
    lost = sent(0, "add", "timeout", name="ü" * 3_000, operation_id="mine")
    (doubt,) = last_summary(limited(), then_many(lost)).in_doubt
    assert isinstance(doubt.arguments, str)
    assert doubt.arguments.startswith('{"name":"ü')
    assert doubt.cut_bytes > 5_000


# What the rule may not do, and how it is caught.


class _CountsSlices(Progress):
    """Shows fewer turns, the oftener it was made anew: a rule that looks at slices."""

    made = 0

    def __init__(self, task: Task, turns: Sequence[TurnRecord] = ()) -> None:
        type(self).made += 1
        super().__init__(task, turns)

    def view(self, *arguments: object) -> View:
        view = super().view(*arguments)  # type: ignore[arg-type]
        return view.model_copy(update={"transcript": view.transcript[self.made % 2 :]})


class _LooksAtTheClock(Progress):
    """Shows other turns, the later it is."""

    clock: Iterator[int] = iter(range(10**9))

    def view(self, *arguments: object) -> View:
        view = super().view(*arguments)  # type: ignore[arg-type]
        return view.model_copy(update={"transcript": view.transcript[next(self.clock) % 5 :]})


@pytest.mark.parametrize("sabotage", [_CountsSlices, _LooksAtTheClock])
def test_a_rule_that_looks_at_slices_or_at_the_time_is_caught(sabotage: MakeProgress) -> None:
    turns = then_many(read(0))
    assert views(limited(), turns, make=sabotage) != views(limited(), turns, 3, make=sabotage)


def test_the_rule_recent_1_is_what_it_was() -> None:
    """A rule never changes: results of before would be compared with results of another one. Add recent-2."""
    asked = TurnRecord(
        turn=2, decision=Decision(ask="May I?"), observations=(Observation(tool="ask", status="ok", content="yes"),)
    )
    turns = then_many(
        sent(0, "add", "timeout", name="apples", operation_id="a"),
        sent(1, "add", "ok", name="pears", operation_id="b"),
        asked,
        more=120,
    )
    shown = views(limited(), turns)
    changed = [view for before, view in pairwise(shown) if view.summary != before.summary]
    assert len(changed) > 3
    assert digest_of([[view.summary, len(view.transcript)] for view in shown]) == GOLDEN


GOLDEN = "sha256:0f678b4de3661dc4c13ace0288b40068070f3448f4a844d9a89d1f3f853b2afc"


def test_tasks_without_a_limit_have_the_digests_that_they_had() -> None:
    assert all(
        "view" not in shipped().task(task_id).model_dump() for task_id in shipped().ids if not _limited(task_id)
    )
    assert tally_task().digest == TALLY_DIGEST


TALLY_DIGEST = "sha256:fd684773ed5fb7a281b6728a943b27a7dd72246f04d6e5ce80c65110e121f35a"


def _limited(task_id: str) -> bool:
    return shipped().task(task_id).view is not None


def test_the_limit_and_its_rule_are_in_the_task_s_digest() -> None:
    assert len({limited().digest, limited(3_000).digest, tally_task(limits=limited().limits).digest}) == 3


@pytest.mark.parametrize(
    ("view", "said"),
    [
        ({"tokens": 100}, "2000"),
        ({"tokens": 2_000, "rule": "newest-7"}, "recent-1"),
        ({"tokens": 2_000, "words": 1}, "words"),
        ({}, "tokens"),
    ],
)
def test_a_bad_limit_is_refused_by_name(view: dict[str, object], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        tally_task(view=view)


def test_a_limit_that_the_instruction_would_fill_is_refused() -> None:
    with pytest.raises(ValidationError, match=r"view\.tokens: too few .* give 3003"):
        limited(instruction="x" * 2_000)
    assert limited(3_003, instruction="x" * 2_000)


def test_every_part_of_a_summary_is_documented() -> None:
    page = (Path(__file__).resolve().parents[3] / "docs/long-episodes.md").read_text()
    assert all(f"| `{name}` |" in page for name in HistorySummary.model_fields)
    assert all(f"`{name}`" in page for model in (Recalled, ToolCount) for name in model.model_fields)
