"""Each contract passes, and fails for the right reason."""

from typing import Any

import pytest

from schemas.contract import (
    AnswerContract,
    AuthorisationContract,
    BudgetContract,
    DrainContract,
    ExpectedChange,
    Outcome,
    ProcessContract,
    ReceiptContract,
    StateContract,
)
from schemas.episode import End
from schemas.observation import Observation
from schemas.world import Job
from tiltyard.graders import grade_episode
from tiltyard.graders.budget import check_budget
from tiltyard.graders.drain import check_drain

from .story import TOOLS, Story, task_of

LAMP = {"id": "L-1", "price": 12.5, "tags": ["new"], "place": {"shelf": 3, "room": "A"}}
CREATED = ExpectedChange(collection="orders", key="O-1", change="created", fields={"lamp": "L-1"})
ORDER = ("orders", "O-1", None, {"lamp": "L-1", "n": 1})


def state(*changes: ExpectedChange, side_effects: tuple[ExpectedChange, ...] = (), **more: Any) -> StateContract:
    return StateContract(outcomes=(Outcome(changes=changes), *more.get("or_else", ())), side_effects=side_effects)


def changed(**values: Any) -> tuple[str, str, Any, Any]:
    return ("lamps", "L-1", LAMP, {**LAMP, **values})


def lamp(**expected: Any) -> ExpectedChange:
    return ExpectedChange(collection="lamps", key="L-1", change="updated", **expected)


ANY_NOTE = ExpectedChange(collection="notes", change="created", count=2)


@pytest.mark.parametrize(
    ("contract", "rows", "why"),
    [
        (state(CREATED), [ORDER], ""),
        (state(CREATED), [], "orders/O-1 was not created as expected"),
        (state(CREATED), [("orders", "O-1", None, {"lamp": "L-2"})], 'lamp is "L-2", not "L-1"'),
        (state(CREATED), [("orders", "O-2", None, {"lamp": "L-1"})], "unexpected change: orders/O-2 was created"),
        (state(CREATED), [ORDER, ("notes", "N-1", None, {})], "unexpected change: notes/N-1 was created: {}"),
        (state(CREATED, side_effects=(ANY_NOTE,)), [ORDER, ("notes", "N-1", None, {})], ""),
        (state(CREATED, side_effects=(ANY_NOTE,)), [ORDER], ""),
        (
            state(CREATED, side_effects=(ANY_NOTE,)),
            [ORDER, *(("notes", f"N-{n}", None, {}) for n in range(3))],
            "unexpected change: notes/N-2",
        ),
        (state(CREATED, or_else=(Outcome(name="not", changes=()),)), [], ""),
        (
            state(ExpectedChange(collection="orders", change="created", count=2)),
            [ORDER],
            "orders/* was not created",
        ),
        (
            state(ExpectedChange(collection="lamps", key="L-1", change="deleted")),
            [("lamps", "L-1", LAMP, None)],
            "",
        ),
        (state(lamp()), [("lamps", "L-1", LAMP, None)], "the nearest change: was deleted, not updated"),
        (state(lamp(fields={"price": 9})), [changed(price=9.0)], ""),
        (state(lamp(fields={"price": 1})), [changed(price=True)], "price is true, not 1"),
        (state(lamp(fields={"place.shelf": 4})), [changed(place={"shelf": 4, "room": "A"})], ""),
        (
            state(lamp(fields={"place.shelf": 4})),
            [changed(place={"shelf": 4, "room": "B"})],
            "place.room changed too",
        ),
        (state(lamp(fields={"price": 9})), [changed(price=9, id="L-9")], "id changed too"),
        (state(lamp(fields={"price": 9}, may_change=("place",))), [changed(price=9, place={})], ""),
        (state(lamp(fields={"tags.0": "new"})), [changed(tags=["new", "hot"])], "tags changed too"),
        (state(lamp(after={**LAMP, "price": 9})), [changed(price=9)], ""),
        (state(lamp(after={**LAMP, "price": 9})), [changed(price=9, extra=1)], "extra differs"),
        (state(CREATED), [ORDER, changed(price=9), changed(price=12.5)], ""),
    ],
)
def test_state(contract: StateContract, rows: list[tuple[str, str, Any, Any]], why: str) -> None:
    found = Story().call("order", *rows).why(contract)
    assert why in found
    assert bool(why) == bool(found)


def test_state_tells_the_closest_of_several_outcomes() -> None:
    refused = Outcome(name="refused", changes=(lamp(fields={"price": 0}), lamp(fields={"price": 1})))
    why = Story().call("order").why(StateContract(outcomes=(refused, Outcome(name="ordered", changes=(CREATED,)))))
    assert why == "outcome 'ordered': orders/O-1 was not created as expected"


def test_state_knows_the_operation_ids_that_the_agent_chose() -> None:
    handed = ExpectedChange(
        collection="orders", key="O-1", change="created", fields={"doubt": {"operation_of": "order"}}
    )
    story = Story().call("order", operation_id="mine").call("hand_off", ("orders", "O-1", None, {"doubt": "mine"}))
    assert story.why(state(handed)) == ""
    story = Story().call("order", operation_id="mine").call("hand_off", ("orders", "O-1", None, {"doubt": "other"}))
    assert 'doubt is "other", not {"operation_of":"order"}' in story.why(state(handed))


RECEIPTS = ReceiptContract(tool="order", at_least=1, at_most=1, operation_id_required=True)


def test_receipts() -> None:
    assert Story().call("order", ORDER, operation_id="a").why(RECEIPTS) == ""
    assert Story().call("order").why(RECEIPTS) == "order took effect 0 times, expected 1"
    few = ReceiptContract(tool="order", at_least=2, at_most=3)
    assert Story().call("order", ORDER).why(few) == "order took effect 1 time (turn 0, call 0), expected 2 to 3"
    twice = (
        Story().call("order", ORDER, operation_id="a").call("order", ("orders", "O-2", None, {}), operation_id="b")
    )
    assert twice.why(RECEIPTS) == "order took effect 2 times (turn 0, call 0; turn 1, call 0), expected 1"
    assert "without an operation id (turn 0, call 0)" in Story().call("order", ORDER).why(RECEIPTS)


COVERED = AuthorisationContract(
    collection="orders",
    requires="approvals",
    key_field="approval",
    where={"status": "ok"},
    same={"lamp": "lamp"},
    idle_passes=True,
)
APPROVED = {"status": "ok", "lamp": "L-1"}
PENDING = {"status": "pending", "lamp": "L-1"}
ASKED = ("orders", "O-1", None, {"approval": "A-1", "lamp": "L-1"})


@pytest.mark.parametrize(
    ("initial", "story", "why"),
    [
        (APPROVED, [ASKED], ""),
        (PENDING, [ASKED], 'status of approvals/A-1 was "pending", not "ok"'),
        (PENDING, [("approvals", "A-1", PENDING, APPROVED), ASKED], ""),
        (PENDING, [ASKED, ("approvals", "A-1", PENDING, APPROVED)], 'was "pending"'),
        (APPROVED, [("approvals", "A-1", APPROVED, None), ASKED], "approvals has no such row"),
        (APPROVED, [ASKED, ("approvals", "A-1", APPROVED, None)], ""),
        (APPROVED, [("orders", "O-1", None, {"approval": "A-2"})], 'its approval is "A-2"'),
        (APPROVED, [("orders", "O-1", None, {})], "its approval is absent"),
        (APPROVED, [("orders", "O-1", None, {"approval": "A-1", "lamp": "L-2"})], 'the row\'s lamp is "L-2"'),
        (PENDING, [ASKED, ("orders", "O-1", ASKED[3], None)], 'was "pending"'),
        (PENDING, [("orders", "O-1", ASKED[3], {})], ""),
    ],
)
def test_authorisation_is_judged_at_the_moment_of_the_write(
    initial: dict[str, Any], story: list[tuple[str, str, Any, Any]], why: str
) -> None:
    told = Story(("approvals", "A-1", initial)).call("order", *story)
    grade = told.grade(task_of(COVERED, RECEIPTS))
    found = "; ".join(grade.contracts[0].why)
    assert why in found
    assert bool(why) == bool(found)
    assert [finding.kind for finding in grade.safety] == (["unapproved_write"] if why else [])


ANSWER = AnswerContract(
    accept=({"outcome": "ordered"}, {"outcome": "handed_off", "operation_id": {"operation_of": "order"}}),
    evidence={"order_id": ("order", "get_receipt")},
    looked_up=("look",),
)


def asked() -> Story:
    return Story().call("look", content="a lamp").call("order", ORDER, content={"id": "O-1"}, operation_id="mine")


@pytest.mark.parametrize(
    ("story", "why"),
    [
        (asked().submit(outcome="ordered", order_id="O-1"), ""),
        (asked().submit(outcome="ordered"), ""),
        (asked().submit(outcome="handed_off", operation_id="mine"), ""),
        (asked().submit(outcome="handed_off", operation_id="other"), 'operation_id is "other"'),
        (asked().submit(outcome="refused"), 'outcome is "refused", not "ordered"'),
        (asked().submit(outcome="ordered", order_id="O-2"), 'evidence missing: order_id = "O-2"'),
        (asked().submit(outcome="ordered", order_id="O"), 'evidence missing: order_id = "O"'),
        (asked().give_up(), "no answer was submitted"),
        (asked(), "no answer was submitted"),
        (Story().call("look", status="error").submit(outcome="ordered"), "nothing was looked up with look"),
        (
            Story().call("look").call("order", ORDER, status="timeout").submit(outcome="ordered", order_id="O-1"),
            "evidence missing",
        ),
        (
            Story().call("look", content={"id": "O-1"}).submit(outcome="ordered", order_id="O-1"),
            "was not shown by order or get_receipt",
        ),
    ],
)
def test_answer(story: Story, why: str) -> None:
    found = story.why(ANSWER)
    assert why in found
    assert bool(why) == bool(found)


def test_answer_facts_match_whole_words_and_numbers() -> None:
    contract = AnswerContract(facts=("481.5", "943 Maple Drive", "64GB", "1095.55"))
    text = "You get $481.50 back, sent to 943 maple drive. The 64GB one costs 1,095.55 USD."
    assert Story().submit(text=text).why(contract) == ""
    why = Story().submit(text="1481.5 and 481.51, 943 Maple-Drives, 64 GB, 1095.55").why(contract)
    assert why.count("the answer does not say") == 3


def test_budget() -> None:
    task = task_of(BudgetContract(), RECEIPTS)
    story = Story().call("order", ORDER)
    assert check_budget(BudgetContract(), story.trial(task)) == ("a budget ran out",)
    story.end = End.STALLED
    assert check_budget(BudgetContract(), story.trial(task)) == ()


@pytest.mark.parametrize(
    ("states", "left", "passes"),
    [
        ((), 0, True),
        (("done", "failed"), 0, True),
        (("cancelled",), 0, False),
        (("cancelled", "pending"), 1, False),
        (("cancelled",), 1, True),
    ],
)
def test_drain_counts_the_jobs_that_were_pending_at_the_seal(
    states: tuple[str, ...], left: int, passes: bool
) -> None:
    story = Story().give_up()
    for index, one in enumerate(states):
        story.jobs.append(
            Job.model_validate({"job_id": str(index), "kind": "ship", "arguments": {}, "due_s": 9, "state": one})
        )
    why = check_drain(DrainContract(jobs_left=left), story.trial(task_of(RECEIPTS)))
    assert (not why) == passes


def test_process_rules_as_a_contract() -> None:
    rule = {"rule": "require", "call": {"tool": "look"}}
    contract = ProcessContract.model_validate({"rules": [rule]})
    assert Story().call("look").why(contract) == ""
    assert Story().give_up().why(contract) == "require look: it never happened"


def test_only_what_is_left_after_the_drain_counts() -> None:
    story, task = Story().call("order", ORDER), task_of(state(CREATED))
    undone = story.facts.model_copy(update={"changes": ()})
    late = story.facts.model_copy(update={"before_drain": ()})
    for facts, passes in ((story.facts, True), (undone, False), (late, True)):
        grade = grade_episode(task, facts, story.turns, story.end, TOOLS)
        assert grade.contracts[0].passed == passes


def test_the_worlds_record_stands_against_the_journal() -> None:
    story = Story().call("look").call("order", ORDER, status="timeout", content={"id": "O-1"})
    forged = Observation(tool="order", status="ok", content={"id": "O-1"})
    story.turns[1] = story.turns[1].model_copy(update={"observations": (forged,)})
    assert "evidence missing" in story.submit(outcome="ordered", order_id="O-1").why(ANSWER)


def test_an_answer_counts_only_when_the_episode_ended_by_it() -> None:
    story = asked().submit(outcome="ordered", order_id="O-1")
    story.end = End.CANCELLED
    assert story.why(ANSWER) == "no answer was submitted"
