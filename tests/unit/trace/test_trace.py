"""The trace: its digest (I7), and its lines, from which an episode can be graded again."""

import asyncio
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.base import canonical
from schemas.episode import End
from schemas.evidence import Evidence
from schemas.journal import TurnRecord
from schemas.task import Task
from schemas.world import Facts, LateWrite
from tiltyard.errors import BadInput
from tiltyard.graders import grade_episode
from tiltyard.policies.catalogue import open_script
from tiltyard.suite import shipped
from tiltyard.testing.memory_worlds import MemoryWorlds
from tiltyard.testing.rehearse import rehearse
from tiltyard.trace import Trace, pack, read_trace, trace_digest, trace_lines, unpack
from tiltyard.worlds.engine import Engine
from tiltyard.worlds.registry import worlds

TASK = shipped().task("replacement/reply-lost/1")


def played(name: str, script: str = "late_callback", engine: Engine | None = None, seed: int = 0) -> Evidence:
    engine = engine or Engine(worlds(), MemoryWorlds())
    return asyncio.run(rehearse(TASK, open_script(script, TASK), engine, name=name, seed=seed))


def digest(left: Evidence) -> str:
    return trace_digest(TASK, left.facts, left.turns, left.ending.end)


@pytest.fixture(scope="module")
def left() -> Evidence:
    return played("one")


def test_equal_episodes_have_equal_digests_under_other_names_namespaces_and_generations(left: Evidence) -> None:
    engine = Engine(worlds(), MemoryWorlds())
    played("before", "new_id_retry", engine)
    other = played("some/other/name", engine=engine)
    assert other.facts.generation != left.facts.generation
    assert digest(other) == digest(left)


def test_another_script_or_seed_gives_another_digest(left: Evidence) -> None:
    assert digest(played("one", "reconcile")) != digest(left)
    assert digest(played("one", seed=1)) != digest(left)


def _facts(change: Callable[[dict[str, Any]], None]) -> Callable[[Evidence], Evidence]:
    """An edit of the facts as plain data."""

    def edit(left: Evidence) -> Evidence:
        facts = left.facts.model_dump(mode="json")
        change(facts)
        return left.model_copy(update={"facts": Facts.model_validate(facts)})

    return edit


def _turn(number: int, **update: Any) -> Callable[[Evidence], Evidence]:
    def edit(left: Evidence) -> Evidence:
        turns = list(left.turns)
        turns[number] = turns[number].model_copy(update=update)
        return left.model_copy(update={"turns": tuple(turns)})

    return edit


def _entity_row(facts: dict[str, Any]) -> dict[str, Any]:
    row: dict[str, Any] = next(row for row in facts["ledger"] if not row["collection"].startswith("~"))
    return row


def _shift(facts: dict[str, Any]) -> None:
    for row in facts["ledger"]:
        row["position"] += 100


def _rename(facts: dict[str, Any]) -> None:
    for row in facts["ledger"]:
        row["cause"] = row["cause"].replace("one/", "two/9")
    for one in (*facts["deliveries"], *facts["receipts"]):
        one["delivery_id"] = one["delivery_id"].replace("one/", "two/9")
    for job in facts["jobs"]:
        job["job_id"] += "-x"


def _swap(facts: dict[str, Any]) -> None:
    first, second, *_ = [row for row in facts["ledger"] if not row["collection"].startswith("~")]
    first["position"], second["position"] = second["position"], first["position"]


LATE = LateWrite(delivery_id="one/1/0/0", tool="look", generation=1, current_generation=2)


@pytest.mark.parametrize(
    "edit",
    [
        _facts(_shift),
        _facts(_rename),
        _facts(lambda facts: facts.update(late=[LATE.model_dump()], namespace="other", generation=99)),
        _facts(lambda facts: facts["receipts"].reverse()),
        _facts(lambda facts: facts["jobs"].reverse()),
        _facts(lambda facts: facts["ledger"].reverse()),
        lambda left: left.model_copy(update={"drain": left.drain.model_copy(update={"in_flight": 3})}),
    ],
)
def test_what_belongs_to_one_run_is_not_in_the_digest(left: Evidence, edit: Callable[[Evidence], Evidence]) -> None:
    assert edit(left) != left
    assert digest(edit(left)) == digest(left)


@pytest.mark.parametrize(
    "edit",
    [
        _turn(0, observations=()),
        _turn(0, now_s=999),
        _turn(0, faults=("delay",)),
        lambda left: _turn(0, decision=left.turns[0].decision.model_copy(update={"thought": "hm"}))(left),
        lambda left: left.model_copy(update={"turns": left.turns[:-1]}),
        lambda left: left.model_copy(update={"turns": left.turns[::-1]}),
        lambda left: left.model_copy(update={"ending": left.ending.model_copy(update={"end": End.CANCELLED})}),
        _facts(lambda facts: _entity_row(facts).update(after={"x": 1})),
        _facts(lambda facts: _entity_row(facts).update(cause="one/1/40/0")),
        _facts(lambda facts: _entity_row(facts).update(at_s=1)),
        _facts(_swap),
        _facts(lambda facts: facts["receipts"][0].update(operation_id="other")),
        _facts(lambda facts: facts["jobs"][0].update(state="failed")),
        _facts(lambda facts: facts["jobs"].pop()),
    ],
)
def test_what_happened_is_in_the_digest(left: Evidence, edit: Callable[[Evidence], Evidence]) -> None:
    assert digest(edit(left)) != digest(left)


def traced(left: Evidence, task: Task = TASK) -> Trace:
    tools = Engine(worlds(), MemoryWorlds()).describe(task.world)
    return Trace(task, tools, left)


def test_a_trace_reads_back_whole_and_grades_again_to_the_same(left: Evidence) -> None:
    trace = traced(left)
    lines = list(trace_lines(trace))
    again = read_trace(lines)
    assert again == trace
    assert list(trace_lines(again)) == lines
    facts, turns = again.evidence.facts, again.evidence.turns
    grade = grade_episode(TASK, left.facts, left.turns, left.ending.end, trace.tools)
    assert grade_episode(again.task, facts, turns, again.evidence.ending.end, again.tools) == grade
    assert unpack(pack(trace)) == trace
    assert pack(trace) == pack(again)
    assert trace_digest(again.task, facts, turns, again.evidence.ending.end) == digest(left)


def test_every_turn_and_row_has_a_line_of_its_own(left: Evidence) -> None:
    lines = list(trace_lines(traced(left)))
    assert all(line.endswith(b"\n") and line.count(b"\n") == 1 for line in lines)
    assert sum(line.startswith(b'{"line":"turn"') for line in lines) == len(left.turns)
    assert sum(line.startswith(b'{"line":"ledger"') for line in lines) == len(left.facts.ledger)


def test_a_trace_that_was_cut_is_refused(left: Evidence) -> None:
    lines = list(trace_lines(traced(left)))
    with pytest.raises(BadInput, match="no line 'tools'"):
        read_trace(lines[:-1])
    with pytest.raises(BadInput, match="line 1"):
        read_trace([lines[0][:40], *lines[1:]])
    with pytest.raises(BadInput, match="of format 2"):
        read_trace([lines[0].replace(b'"format":1', b'"format":2'), *lines[1:]])


@cache
def small_trace() -> list[bytes]:
    return list(trace_lines(traced(played("small", "do_nothing"))))


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_a_damaged_trace_is_read_or_refused(data: st.DataObject) -> None:
    lines = small_trace()
    number = data.draw(st.integers(0, len(lines) - 1))
    line = lines[number]
    at = data.draw(st.integers(0, len(line)))
    damaged = line[:at] + data.draw(st.binary(max_size=4)) + line[at + data.draw(st.integers(0, 9)) :]
    field = "trace"
    try:
        read_trace([*lines[:number], damaged, *lines[number + 1 :]])
    except BadInput as refused:
        field = refused.field
    assert field.startswith("trace")


def test_text_that_is_no_unicode_survives_a_trace(left: Evidence) -> None:
    odd = left.turns[0].decision.model_copy(update={"thought": "caf\u00e9 \u2028 \x00"})
    changed = _turn(0, decision=odd)(left)
    assert isinstance(changed.turns[0], TurnRecord)
    again = read_trace(list(trace_lines(traced(changed))))
    assert canonical(again.evidence) == canonical(changed)
