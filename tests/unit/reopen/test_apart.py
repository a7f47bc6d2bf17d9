"""Two episodes of one task: where their decisions part, and what differs before."""

import pytest

from ops.cli.apart import apart_lines
from schemas.decision import Decision
from schemas.fault import Fault
from tests.unit.reopen.played import graded, played
from tiltyard.errors import BadInput
from tiltyard.reopen.apart import apart
from tiltyard.trace import Trace

LOST = "replacement/reply-lost/1"


def changed(trace: Trace, turn: int, decision: Decision) -> Trace:
    turns = list(trace.evidence.turns)
    turns[turn] = turns[turn].model_copy(update={"decision": decision})
    return Trace(trace.task, trace.tools, trace.evidence.model_copy(update={"turns": tuple(turns)}))


def test_they_part_at_the_first_different_decision() -> None:
    found = apart(*played(LOST, "reconcile"), *played(LOST, "new_id_retry"))
    assert (found.turn, found.before, found.same_task) == (5, None, True)
    assert found.left.turn is not None
    assert found.right.turn is not None
    assert [side.turn.calls[0].tool for side in (found.left, found.right) if side.turn] == [
        "get_receipt",
        "create_replacement",
    ]
    assert found.right.turn.calls[0].changes
    assert (found.left.score.total, found.right.score.completion) == (1.0, 0.0)
    assert [one.name for one in found.right.contracts if not one.passed] == [
        "state",
        "receipts",
        "answer",
        "settled",
    ]


def test_what_a_policy_thinks_notes_and_pays_is_no_decision() -> None:
    trace, result = played(LOST, "reconcile")
    same = trace.evidence.turns[2].decision
    other = changed(trace, 2, same.model_copy(update={"thought": "hm", "memo": {"n": 1}, "tokens": 5}))
    found = apart(trace, result, other, result)
    assert found.turn is None
    assert (found.left.turn, found.right.turn) == (None, None)
    assert found.before is not None
    assert (found.before.turn, found.before.what) == (2, "decision")


def test_the_first_difference_of_any_kind_is_told_before() -> None:
    """The reply is not lost in one of them: what they were shown differs a turn before what they do."""
    trace, result = played(LOST, "reconcile")
    turns = list(trace.evidence.turns)
    assert turns[4].observations is not None
    shown = turns[4].observations[0].model_copy(update={"status": "ok", "content": "accepted", "message": ""})
    turns[4] = turns[4].model_copy(update={"observations": (shown,), "faults": ()})
    turns[5] = turns[6]
    other = Trace(trace.task, trace.tools, trace.evidence.model_copy(update={"turns": tuple(turns)}))
    found = apart(trace, result, other, graded(other))
    assert found.turn == 5
    assert found.before is not None
    assert (found.before.turn, found.before.call, found.before.what) == (4, 0, "observation")


def test_one_that_ended_earlier_parts_where_the_other_goes_on() -> None:
    trace, result = played(LOST, "reconcile")
    short = Trace(trace.task, trace.tools, trace.evidence.model_copy(update={"turns": trace.evidence.turns[:3]}))
    found = apart(short, result, trace, result)
    assert (found.turn, found.left.turn, found.before) == (3, None, None)
    assert found.right.turn is not None
    assert found.right.turn.turn == 3


def test_nothing_parts_an_episode_from_itself() -> None:
    found = apart(*played(LOST, "reconcile"), *played(LOST, "reconcile"))
    assert (found.turn, found.before) == (None, None)


def test_episodes_of_different_tasks_are_refused() -> None:
    with pytest.raises(BadInput, match="--diff e-1: is an episode of replacement/approved/1, and e-1 is one of"):
        apart(*played(LOST, "reconcile"), *played("replacement/approved/1", "reconcile"))


def test_a_task_that_was_changed_between_them_is_said() -> None:
    trace, result = played(LOST, "reconcile")
    spec = trace.evidence.spec.model_copy(update={"task_digest": "sha256:other"})
    task = trace.task.model_copy(update={"faults": (Fault(tool="get_ticket", kind="error_status"),)})
    other = Trace(task, trace.tools, trace.evidence.model_copy(update={"spec": spec}))
    found = apart(trace, result, other, result)
    assert not found.same_task
    assert [(one.what, one.right) for one in found.differs] == [
        ("faults.0", "error_status of get_ticket at every call (unavailable: the service is unavailable)"),
        *((f"faults.{number}", "none") for number in range(1, len(trace.task.faults))),
    ]
    text = "\n".join(line.text for line in apart_lines(found))
    assert "the task was not the same" in text
    assert "faults.0: commit_then_drop of create_replacement" in text
