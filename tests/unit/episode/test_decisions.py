"""I11: whatever a policy returns is recorded and read again, or a policy error that says why."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from infra.stores.database import open_database
from infra.stores.journal import SqlJournal
from infra.stores.objects import FolderObjects
from schemas.base import JsonValue, canonical
from schemas.decision import Call, Decision
from schemas.episode import End
from schemas.journal import Writer
from schemas.view import View
from tiltyard.episode.decisions import (
    MAX_DECISION_BYTES,
    MAX_DEPTH,
    MAX_MEMO_BYTES,
    MAX_THOUGHT_BYTES,
    recordable,
)
from tiltyard.episode.grading import examine
from tiltyard.errors import PolicyFailed
from tiltyard.suite import shipped
from tiltyard.testing.memory_worlds import MemoryWorlds
from tiltyard.testing.rehearse import rehearse
from tiltyard.trace import Trace, pack, unpack
from tiltyard.worlds.engine import Engine
from tiltyard.worlds.registry import worlds


def nested(levels: int) -> JsonValue:
    value: JsonValue = "bottom"
    for _ in range(levels):
        value = [value]
    return value


HOSTILE: list[JsonValue] = [
    "half a character: \ud800",
    "\x00\x1b[2J\u2028",
    10**5000,
    1e308,
    nested(MAX_DEPTH - 1),
    nested(5000),
    {"": {"": ""}},
]


@pytest.mark.parametrize("value", HOSTILE, ids=range(len(HOSTILE)))
async def test_a_hostile_decision_ends_in_a_recorded_and_readable_trace(value: JsonValue) -> None:
    (task,) = shipped().match(["replacement/approved/1"])
    engine = Engine(worlds(), MemoryWorlds())

    class Hostile:
        async def act(self, view: View) -> Decision:
            call = Call.model_construct(tool="get_ticket", arguments={"ticket_id": value, "odd": value})
            if view.turn == 0:
                return Decision.model_construct(calls=(call,), memo=value)
            return Decision.model_construct(submit={"answer": value}, thought=str(value)[:100])

    evidence = await rehearse(task, Hostile(), engine)
    tools = engine.describe(task.world)
    assert evidence.ending.end in (End.SUBMITTED, End.POLICY_ERROR)
    assert unpack(pack(Trace(task, tools, evidence))).evidence == evidence
    assert examine(task, evidence, tools).score.completion == 0


def test_what_cannot_be_recorded_is_refused_with_the_field() -> None:
    deep = Decision.model_construct(calls=(Call.model_construct(tool="t", arguments={"x": nested(MAX_DEPTH + 1)}),))
    with pytest.raises(PolicyFailed, match=r"calls\.0\.arguments: more than 100 levels"):
        recordable(deep)
    with pytest.raises(PolicyFailed, match="larger than"):
        recordable(Decision(submit={"text": "x" * MAX_DECISION_BYTES}))
    with pytest.raises(PolicyFailed, match="returned dict, not a Decision"):
        recordable({"submit": {}})
    with pytest.raises(PolicyFailed, match="exactly one"):
        recordable(Decision.model_construct(submit={}, give_up="both"))
    with pytest.raises(PolicyFailed, match="cannot be written"):
        recordable(Decision.model_construct(submit={"x": float("nan")}))


@pytest.mark.parametrize(
    ("field", "limit", "sized"),
    [
        (
            "the decision",
            MAX_DECISION_BYTES,
            lambda size: Decision(submit={"é": "x" * (size - len(canonical(Decision(submit={"é": ""}))))}),
        ),
        (
            "thought",
            MAX_THOUGHT_BYTES,
            lambda size: Decision(submit={}, thought="é" * (size // 2) + "x" * (size % 2)),
        ),
        ("memo", MAX_MEMO_BYTES, lambda size: Decision(submit={}, memo=["x" * (size - 4)])),
    ],
)
def test_what_is_too_large_is_refused_with_the_field_and_the_limit(
    field: str, limit: int, sized: Callable[[int], Decision]
) -> None:
    """It would otherwise be tried again for ever by a workflow that cannot take it (pydantic-ai 7164)."""
    assert recordable(sized(limit)) == sized(limit)
    with pytest.raises(PolicyFailed, match=f": {field}: {limit + 1} bytes, larger than {limit}$"):
        recordable(sized(limit + 1))


async def test_a_memo_is_given_back_once_and_not_kept_in_transcripts() -> None:
    (task,) = shipped().match(["replacement/approved/1"])
    views: list[View] = []

    class Remembers:
        async def act(self, view: View) -> Decision:
            views.append(view)
            return Decision(calls=(Call(tool="list_policies"),), memo=f"turn {view.turn}")

    evidence = await rehearse(task, Remembers(), Engine(worlds(), MemoryWorlds()))
    assert [view.memo for view in views] == [None, *(f"turn {turn}" for turn in range(len(views) - 1))]
    assert [turn.decision.memo for view in views for turn in view.transcript if turn.decision.memo] == []
    assert [turn.decision.memo for turn in evidence.turns] == [f"turn {n}" for n in range(len(evidence.turns))]


def test_broken_text_is_replaced_and_the_rest_kept() -> None:
    kept = recordable(Decision(submit={"a": "ok \ud83d.", "b": "\U0001f600"}))
    assert kept.submit == {"a": "ok \ufffd\ufffd\ufffd.", "b": "\U0001f600"}


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(submit=st.dictionaries(st.text(max_size=5), ANYTHING, max_size=3), memo=ANYTHING, thought=st.text())
async def test_a_recordable_decision_comes_back_equal_from_the_journal(
    tmp_path: Path, submit: dict[str, Any], memo: Any, thought: str
) -> None:
    try:
        decision = recordable(Decision.model_construct(submit=submit, memo=memo, thought=thought))
    except PolicyFailed:
        return
    database = open_database(f"sqlite:///{tmp_path / 'records.db'}")
    journal = SqlJournal(database, FolderObjects(tmp_path / "objects"))
    writer, generation = Writer(run_id="r", slice_no=0, attempt_id="a"), abs(hash(str(decision))) % 10**9
    await journal.take("e", generation, writer)
    await journal.decide("e", generation, writer, 0, decision)
    (turn,) = await journal.read("e", generation)
    assert turn.decision == decision
    database.close()
