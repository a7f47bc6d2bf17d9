"""Graders and the trace on arbitrary facts: they never raise, and a claim alone is worth nothing (I8, I11)."""

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.contract import ExpectedChange, Outcome, ProcessRule, StateContract
from schemas.decision import Call, Decision
from schemas.episode import End
from schemas.journal import TurnRecord
from schemas.observation import Observation
from schemas.task import Task
from schemas.world import DeliveryRecord, DeliveryReply, Facts, Job, LedgerRow, Receipt, Row, RowChange, Shown
from tiltyard.graders import count, grade_episode
from tiltyard.graders.trial import agents_place
from tiltyard.policies.script import ScriptPolicy, submit
from tiltyard.suite import shipped
from tiltyard.testing.memory_worlds import MemoryWorlds
from tiltyard.testing.rehearse import rehearse
from tiltyard.trace import trace_digest
from tiltyard.worlds.engine import Engine
from tiltyard.worlds.registry import worlds

from .story import TOOLS, Story, task_of
from .test_contracts import ANSWER, COVERED, RECEIPTS
from .test_values import JSON

CALL = {"tool": "order"}
RULES = tuple(
    ProcessRule.model_validate(rule)
    for rule in (
        {"rule": "require", "call": CALL},
        {"rule": "forbid", "call": CALL, "if_done": {"tool": "look"}},
        {"rule": "order", "call": CALL, "before": {"tool": "look"}},
        {"rule": "at_most", "call": CALL},
        {"rule": "reconcile_before_retry", "call": CALL},
        {"rule": "strategy_change_after", "call": CALL},
        {"rule": "claim_needs_evidence", "fields": ["order_id", "a.b"]},
    )
)
ANY = ExpectedChange(collection="orders", change="created", fields={"lamp": 1, "a.0": None}, count=10**6)
TASK = task_of(
    StateContract(outcomes=(Outcome(changes=(ANY,)), Outcome()), side_effects=(ANY,)),
    RECEIPTS,
    COVERED,
    ANSWER,
    process=RULES,
)

NAMES = st.sampled_from(["look", "order", "get_receipt", "wait", "orders", "approvals", "~jobs", "", "O-1"])
IDS = st.sampled_from(["e/1/0/0", "e/1/0/1", "e/1/1/0", "e/1/settle/0", "job-1", "", "/", "0/0", "é/٣/٣"])
SMALL = st.integers(0, 3)
STATUS = st.sampled_from(["ok", "error", "timeout"])
ARGUMENTS = st.dictionaries(st.sampled_from(["operation_id", "seconds", "n"]), JSON, max_size=3)
BODY = st.none() | st.fixed_dictionaries({"approval": NAMES, "lamp": JSON}) | JSON

SHOWN = st.builds(Shown, status=STATUS, content=JSON, code=st.sampled_from(["", "not_found"]))
REPLY = st.builds(
    DeliveryReply, delivery_id=IDS, shown=SHOWN, committed=st.booleans(), first=SMALL, last=SMALL, now_s=SMALL
)
DELIVERY = st.builds(
    DeliveryRecord,
    delivery_id=IDS,
    tool=NAMES,
    arguments=ARGUMENTS,
    request_digest=st.just(""),
    reply=st.none() | REPLY,
)
LEDGER = st.builds(
    LedgerRow,
    position=SMALL,
    cause_kind=st.sampled_from(["delivery", "job"]),
    cause=IDS,
    tool=NAMES,
    world=st.just("shop"),
    collection=NAMES,
    key=NAMES,
    before=BODY,
    after=BODY,
    at_s=SMALL,
)
CHANGE = st.builds(RowChange, world=st.just("shop"), collection=NAMES, key=NAMES, before=BODY, after=BODY)
ROW = st.builds(Row, world=st.just("shop"), collection=NAMES, key=NAMES, body=JSON)
JOB = st.builds(Job, job_id=IDS, kind=NAMES, arguments=ARGUMENTS, due_s=SMALL)
RECEIPT = st.builds(
    Receipt, operation_id=IDS, tool=NAMES, arguments_digest=st.just(""), delivery_id=IDS, at_s=SMALL, result=JSON
)


def some(rows: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(rows, max_size=4).map(tuple)


FACTS = st.builds(
    Facts,
    namespace=st.just("n"),
    generation=SMALL,
    world=st.just("shop"),
    template=st.just({}),
    template_digest=st.just(""),
    tools_digest=st.just(""),
    now_s=SMALL,
    deliveries=some(DELIVERY),
    ledger=some(LEDGER),
    receipts=some(RECEIPT),
    jobs=some(JOB),
    late=st.just(()),
    before_drain=some(CHANGE),
    changes=some(CHANGE),
    initial=some(ROW),
)
CALLS = some(st.builds(Call, tool=NAMES.filter(bool), arguments=ARGUMENTS)).filter(bool)
ANSWERS = st.dictionaries(st.sampled_from(["outcome", "order_id", "a"]), JSON | st.just("ordered"), max_size=3)
DECISION = CALLS.map(lambda calls: Decision(calls=calls)) | ANSWERS.map(lambda answer: Decision(submit=answer))
TURN = st.builds(
    TurnRecord,
    turn=SMALL,
    decision=DECISION,
    observations=st.none() | some(st.builds(Observation, tool=NAMES, status=STATUS, content=JSON)),
    faults=st.just(()),
    now_s=SMALL,
)


@settings(max_examples=60, deadline=None)
@given(facts=FACTS, turns=some(TURN), end=st.sampled_from(End))
def test_graders_never_raise_and_scores_stay_within_bounds(
    facts: Facts, turns: tuple[TurnRecord, ...], end: End
) -> None:
    grade = grade_episode(TASK, facts, turns, end, TOOLS)
    score = grade.score
    assert all(0 <= value <= 1 for value in (score.total, score.completion, score.process, score.efficiency))
    assert score.completion in (0, 1)
    assert (score.completion == 1) == all(contract.passed for contract in grade.contracts)
    assert grade == grade_episode(TASK, facts, turns, end, TOOLS)
    assert count(facts, turns, 200).duplicates <= count(facts, turns, 200).effects
    assert trace_digest(TASK, facts, turns, end) == trace_digest(TASK, facts, turns, end)


@settings(max_examples=50, deadline=None)
@given(ANSWERS)
def test_whatever_is_claimed_without_a_deed_scores_nothing(answer: dict[str, Any]) -> None:
    score = Story().submit(**answer).grade(TASK).score
    assert (score.total, score.completion, score.process, score.efficiency) == (0, 0, 0, 0)


def _claims(task: Task) -> list[dict[str, Any]]:
    answers = [dict(accepted) for one in task.contracts if one.kind == "answer" for accepted in one.accept]
    return [*answers, {"outcome": "done"}]


def test_every_right_answer_of_every_shipped_task_scores_nothing_as_a_claim() -> None:
    engine = Engine(worlds(), MemoryWorlds())
    for task in shipped().match(["*"]):
        for claim in _claims(task):

            def claiming(_: object, claim: dict[str, Any] = claim) -> Any:
                yield from ()
                return submit(claim)

            left = asyncio.run(rehearse(task, ScriptPolicy(claiming), engine))
            grade = grade_episode(task, left.facts, left.turns, left.ending.end, engine.describe(task.world))
            assert left.ending.end is End.SUBMITTED
            assert grade.score.total == 0, f"{task.id}: {claim}"


@pytest.mark.parametrize(
    "delivery_id", ["e/1/settle/0", "0", "", "e/1/1/x", "e/1/-1/0", "e/1/1/٣", "e/1/9999999999/0"]
)
def test_only_numbered_deliveries_are_the_agents(delivery_id: str) -> None:
    assert agents_place(delivery_id) is None
    assert agents_place("a/b/1/12/3") == (12, 3, 0)
    assert agents_place("a/b/1/12/3/http/41") == (12, 3, 41)
