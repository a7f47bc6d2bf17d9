"""Stories: whatever a trace holds is told once, at the call that it belongs to."""

from collections import Counter

import pytest

from schemas.contract import ExpectedChange, Outcome, StateContract
from schemas.episode import Origin, Validity
from schemas.evidence import Evidence
from schemas.exam import Exam, Exams, TestReport, TestRun
from schemas.story import CallStory, Story
from tests.unit.graders.story import Story as Calls
from tests.unit.graders.story import task_of
from tests.unit.reopen.played import graded, left_open, played, story_of, told, traced
from tiltyard.errors import BadInput
from tiltyard.graders import graders_digest
from tiltyard.reopen.story import so_far, tell, turn_in_full, turn_so_far
from tiltyard.trace import Trace

LOST = "replacement/reply-lost/1"
PLAYED = [
    (LOST, "reconcile"),
    (LOST, "new_id_retry"),
    (LOST, "late_callback"),
    (LOST, "do_nothing"),
    ("replacement/over-http/lost", "do_nothing"),
    ("replacement/approval-amended/1", "reference"),
    ("replacement/receipt-service-down/1", "handoff"),
    ("replacement/not-approved/1", "unapproved_write"),
    ("retail/reply-lost/1", "reference"),
    ("retail/exchange/1", "reference"),
]
ORDER = ("orders", "o-1", None, {"item": "lamp"})
PASSES = StateContract(outcomes=(Outcome(changes=(ExpectedChange(collection="orders", change="created"),)),))


def calls_of(story: Story) -> list[CallStory]:
    return [one for turn in story.turns for call in turn.calls for one in (call, *call.inside)]


@pytest.mark.parametrize(("task", "policy"), PLAYED)
def test_each_change_receipt_job_and_delivery_is_told_once_at_its_call(task: str, policy: str) -> None:
    trace, _ = played(task, policy)
    facts, story = trace.evidence.facts, story_of(task, policy)
    told_rows = [change.position for call in calls_of(story) for change in call.changes]
    told_rows += [change.position for change in story.later]
    assert sorted(told_rows) == sorted(row.position for row in facts.ledger if not row.system)
    receipts = [call.receipt for call in calls_of(story) if call.receipt is not None]
    assert Counter(map(str, receipts)) == Counter(map(str, facts.receipts))
    jobs = [job for call in calls_of(story) for job in call.jobs]
    assert Counter(map(str, jobs)) == Counter(str(job) for job in facts.jobs if job.created_by)
    deliveries = {one.delivery_id: one.reply for one in facts.deliveries}
    for call in calls_of(story):
        reply = deliveries.get(call.delivery_id)
        assert reply is not None
        assert (call.effect, call.fault) == (reply.committed, reply.fault)
        assert call.shown is not None
        assert (call.shown.status, call.shown.content) == (reply.shown.status, reply.shown.content)


@pytest.mark.parametrize(("task", "policy"), PLAYED)
def test_the_facts_behind_the_score_come_to_the_score(task: str, policy: str) -> None:
    trace, result = played(task, policy)
    points = story_of(task, policy).points
    assert points is not None
    triggered = [rule for rule in points.rules if rule.triggered]
    held = sum(rule.weight for rule in triggered if rule.held)
    if trace.evidence.facts.deliveries and triggered and result.counts.tool_calls:
        assert result.score.process == pytest.approx(held / sum(rule.weight for rule in triggered), abs=1e-6)
    ratios = [min(1, one.reference / one.used) for one in points.measures]
    if result.score.completion == 1 and ratios:
        assert result.score.efficiency == pytest.approx(sum(ratios) / len(ratios), abs=1e-6)
    states = sum(contract.kind == "state" for contract in trace.task.contracts)
    came = [change for change in points.changes if not change.missing]
    assert len(came) == states * len(trace.evidence.facts.changes)
    as_expected = all(change.taken_for and not change.missing for change in points.changes)
    assert as_expected == all(one.passed for one in result.contracts if one.kind == "state")
    assert points.as_recorded


def test_a_lost_reply_is_told_with_the_effect_that_the_agent_was_not_shown() -> None:
    story = story_of(LOST, "new_id_retry")
    lost = next(call for call in calls_of(story) if call.fault)
    assert lost.shown is not None
    assert (lost.fault, lost.shown.status, lost.effect) == ("commit_then_drop", "timeout", True)
    assert lost.receipt is not None
    assert [(one.collection, one.change) for one in lost.changes] == [
        ("replacements", "created"),
        ("stock", "updated"),
    ]
    (stock,) = lost.changes[1].fields
    assert (stock.path, stock.before, stock.after) == ("available", 5, 4)
    assert [job.kind for job in lost.jobs] == ["ship_replacement"]
    assert {change.job for change in story.later} == {"job-000001", "job-000002"}, "they came due in the settling"
    assert story.points is not None
    unexpected = {change.key for change in story.points.changes if change.taken_for is None}
    assert "R-1002" in unexpected
    assert "R-1001" not in unexpected


LAMP = {"price": 5, "room": "A"}
SOLD = ExpectedChange(collection="lamps", key="L-1", change="updated", fields={"price": 4})
CLOSED = ExpectedChange(collection="tickets", key="T-1", change="updated")
NOTED = ExpectedChange(collection="notes", change="created")


def test_the_points_tell_expected_changes_that_never_came_and_how_near_others_came() -> None:
    calls = Calls().call("order", ("lamps", "L-1", LAMP, {**LAMP, "price": 3}), ORDER, item="lamp")
    wanted = StateContract(outcomes=(Outcome(name="sold", changes=(SOLD, CLOSED, NOTED)),))
    points = told(traced(calls, task_of(wanted))).points
    assert points is not None
    found = [(one.collection, one.key, one.change, one.missing, one.taken_for) for one in points.changes]
    assert found == [
        ("lamps", "L-1", "updated", False, None),
        ("orders", "o-1", "created", False, None),
        ("tickets", "T-1", "updated", True, "outcome 'sold'"),
        ("notes", "*", "created", True, "outcome 'sold'"),
    ]
    assert [one.misfits for one in points.changes] == [("price is 3, not 4",), (), (), ()]


def test_one_change_comes_near_to_one_expected_change_only() -> None:
    calls = Calls().call("order", ("orders", "o-1", None, {"n": 1}), item="lamp")
    twice = ExpectedChange(collection="orders", change="created", fields={"n": 2}, count=2)
    points = told(traced(calls, task_of(StateContract(outcomes=(Outcome(changes=(twice,)),))))).points
    assert points is not None
    assert [(one.key, one.missing, one.misfits) for one in points.changes] == [
        ("o-1", False, ("n is 1, not 2",)),
        ("*", True, ()),
    ]


def test_what_came_due_while_a_call_moved_the_clock_is_told_at_that_call() -> None:
    calls = Calls().call("order", ORDER, item="lamp").call("wait", seconds=9)
    shipped = ("orders", "o-1", {"item": "lamp"}, {"item": "lamp", "sent": True})
    calls.rows(shipped, cause="job-7", tool="ship")
    reply = calls.deliveries[1].reply
    assert reply is not None
    calls.deliveries[1] = calls.deliveries[1].model_copy(
        update={"reply": reply.model_copy(update={"first": 2, "last": 2})}
    )
    calls.rows(("orders", "o-1", {"item": "lamp", "sent": True}, None), cause="job-8", tool="lose")
    story = told(traced(calls, task_of(PASSES)))
    (sent,) = story.turns[1].calls[0].changes
    assert (sent.job, sent.tool, sent.change) == ("job-7", "ship", "updated")
    assert [(field.path, field.change, field.after) for field in sent.fields] == [("sent", "created", True)]
    assert [(one.job, one.change, one.body) for one in story.later] == [
        ("job-8", "deleted", {"item": "lamp", "sent": True})
    ]


def test_calls_of_programs_stand_below_the_command_that_made_them() -> None:
    calls = Calls().call("look").call("look").call("look")
    calls.inside("episode/7/1/0/http/2", "order", ORDER, item="lamp")
    calls.inside("episode/7/1/0/http/1", "order", status="timeout", item="lamp")
    first, second, third = told(traced(calls, task_of(PASSES))).turns
    assert (first.calls[0].inside, third.calls[0].inside) == ((), ())
    found = [(one.request, one.tool, one.shown.status if one.shown else "") for one in second.calls[0].inside]
    assert found == [(1, "order", "timeout"), (2, "order", "ok")]
    assert [change.key for change in second.calls[0].inside[1].changes] == ["o-1"]
    assert second.calls[0].changes == ()


def test_a_call_in_flight_at_the_seal_says_how_it_is_read() -> None:
    calls = Calls().call("look").call("order", ORDER, item="lamp")
    calls.turns[1] = left_open(calls.turns[1])
    story = told(traced(calls, task_of(PASSES), in_flight={"episode/7/1/0": "committed"}))
    call = story.turns[1].calls[0]
    assert (call.shown, call.reading, call.effect) == (None, "committed", True)
    assert story.turns[1].now_s is None


def test_turns_of_the_parent_are_marked_and_a_fork_has_its_sandbox_after_its_lease() -> None:
    trace, result = played(LOST, "reconcile")
    origin = Origin(kind="fork", episode_id="e-0", turn=2)
    spec = trace.evidence.spec.model_copy(update={"origin": origin, "sandbox": "bubblewrap"})
    fork = Trace(trace.task, trace.tools, trace.evidence.model_copy(update={"spec": spec}))
    story = tell(fork, result)
    assert [turn.turn for turn in story.turns if turn.kept] == [0, 1]
    after = {phase.name: phase.after for phase in story.phases}
    assert (after["provision"], after["turns"]) == (("lease",), ("lease", "provision"))
    plain = {phase.name: phase.after for phase in tell(trace, result).phases}
    assert "provision" not in plain
    assert plain["turns"] == ("lease",)


def test_phases_have_the_times_of_the_outcome_and_say_what_is_not_known() -> None:
    trace, result = played(LOST, "reconcile")
    timed = result.model_copy(update={"timings": {"lease": 0.5, "seal": 0.25, "close": 1.0}})
    phases = {phase.name: phase for phase in tell(trace, timed).phases}
    assert (phases["lease"].seconds, phases["seal"].seconds, phases["grade"].seconds) == (0.5, 0.25, None)
    assert "beside grade" in phases["recycle"].note
    assert "nothing was waited for" in phases["settle"].note


def test_an_older_outcome_has_its_facts_found_again_and_other_graders_are_mentioned() -> None:
    trace, result = played(LOST, "new_id_retry")
    older = result.model_copy(
        update={
            "rules": None,
            "measures": None,
            "digests": result.digests.model_copy(update={"graders": "sha256:older"}),
        }
    )
    points = tell(trace, older).points
    assert points is not None
    assert (points.rules, points.measures) == (result.rules, result.measures)
    assert (points.as_recorded, points.graders) == (False, graders_digest())


def test_nothing_is_said_of_points_where_a_grader_failed() -> None:
    trace, result = played(LOST, "reconcile")
    assert tell(trace, result.model_copy(update={"validity": Validity.GRADER})).points is None


def test_tests_are_counted_by_those_that_the_task_expects() -> None:
    run = TestRun(
        expected=("a", "b"),
        reports=tuple(TestReport(test=name, outcome="passed") for name in ("a", "made-up")),
        exit_code=0,
        finished=True,
    )
    story = told(
        traced(Calls().give_up(), task_of(PASSES)), Exams(exams=(Exam(contract=0, visible=run, hidden=run),))
    )
    assert story.points is not None
    found = [(one.contract, one.tests, one.expected, one.passed, one.ended_well) for one in story.points.exams]
    assert found == [("state", "visible", 2, 1, False), ("state", "hidden", 2, 1, False)]


def test_one_turn_in_full_has_the_engine_s_rows_and_whole_images() -> None:
    trace, _ = played(LOST, "new_id_retry")
    full = turn_in_full(trace, 4)
    assert [one.delivery_id for one in full.deliveries] == ["e-1/1/4/0"]
    assert {row.collection for row in full.ledger} >= {"replacements", "stock", "~clock", "~jobs", "~receipts"}
    assert all(row.cause == "e-1/1/4/0" for row in full.ledger)
    assert [one.delivery_id for one in full.receipts] == ["e-1/1/4/0"]
    assert full.record == trace.evidence.turns[4]


def test_one_turn_in_full_has_the_rows_of_the_jobs_that_came_due_in_it() -> None:
    calls = Calls().call("look").call("wait", seconds=9)
    calls.rows(("~jobs", "job-7", {"state": "pending"}, {"state": "done"}), cause="job-7", tool="ship")
    reply = calls.deliveries[1].reply
    assert reply is not None
    calls.deliveries[1] = calls.deliveries[1].model_copy(
        update={"reply": reply.model_copy(update={"first": 1, "last": 1})}
    )
    trace = traced(calls, task_of(PASSES))
    assert [row.cause for row in turn_in_full(trace, 1).ledger] == ["job-7"]


def test_a_turn_that_there_is_not_is_refused_by_name() -> None:
    trace, _ = played(LOST, "new_id_retry")
    with pytest.raises(BadInput, match="--turn: there is no turn 99 \\(choose one from 0 to 7\\)"):
        turn_in_full(trace, 99)
    with pytest.raises(BadInput, match="it had no turn"):
        turn_so_far(trace.evidence.spec, 0, (), 0)


def test_an_episode_that_runs_is_told_from_its_journal() -> None:
    evidence: Evidence = played(LOST, "new_id_retry")[0].evidence
    turns = (*evidence.turns[:5], left_open(evidence.turns[5]))
    story = so_far(evidence.spec, played(LOST, "new_id_retry")[0].task, 3, turns)
    assert [turn.turn for turn in story.turns] == [0, 1, 2, 3, 4, 5]
    assert story.turns[4].faults == ("commit_then_drop",)
    assert story.turns[5].calls[0].shown is None
    assert (story.points, story.phases) == (None, ())
    assert story.turns[5].calls[0].delivery_id == "e-1/3/5/0"
    assert turn_so_far(evidence.spec, 3, turns, 5).turn == story.turns[5]


def test_the_story_is_a_function_of_what_is_kept() -> None:
    trace, result = played(LOST, "new_id_retry")
    assert tell(trace, result) == tell(trace, result)
    assert Story.model_validate_json(tell(trace, result).model_dump_json()) == tell(trace, result)
    assert graded(trace) == result
