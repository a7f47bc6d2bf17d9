"""I11: every number of a task has bounds, and a task of numbers at their bounds plays to a recorded end."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from infra.stores.database import open_database
from infra.stores.world_store import SqlWorlds
from schemas.contract import MAX_COUNT
from schemas.decision import Decision
from schemas.episode import End, Validity
from schemas.span import CLOCK_END_S, LONGEST_S
from schemas.task import MAX_TOKENS, MAX_TOOL_CALLS, Task, Weights
from schemas.view import View
from tiltyard.episode.grading import examine
from tiltyard.errors import NotSettled
from tiltyard.policies.script import call, give_up
from tiltyard.suite import shipped
from tiltyard.testing.memory_worlds import MemoryWorlds
from tiltyard.testing.rehearse import rehearse
from tiltyard.trace import Trace, pack, unpack
from tiltyard.worlds.draft import NOW
from tiltyard.worlds.engine import Engine
from tiltyard.worlds.registry import worlds
from tiltyard.worlds.rows import CLOCK, RowKey
from tiltyard.worlds.store import Overlay

BASE: dict[str, Any] = shipped().task("replacement/approved/1").model_dump(mode="json")
"""What the numbers below are written into."""

NUMBERS: dict[str, tuple[float, float]] = {
    "limits.turns": (1, 100_000),
    "limits.tool_calls": (1, MAX_TOOL_CALLS),
    "limits.tokens": (1, MAX_TOKENS),
    "limits.virtual_s": (1, LONGEST_S),
    "limits.wall_s": (5e-324, LONGEST_S),
    "limits.turn_s": (5e-324, LONGEST_S),
    "limits.answer_s": (5e-324, LONGEST_S),
    "limits.observation_bytes": (256, 2**24),
    "view.tokens": (2_000, 10_000_000),
    "settle.limit_s": (0, LONGEST_S),
    "faults.0.nth": (1, 1_000_000),
    "faults.0.from_s": (0, LONGEST_S),
    "faults.0.until_s": (1, LONGEST_S),
    "faults.0.delay_s": (1, LONGEST_S),
    "contracts.0.outcomes.0.changes.0.count": (1, MAX_COUNT),
    "contracts.1.at_least": (0, MAX_COUNT),
    "contracts.1.at_most": (0, MAX_COUNT),
    "contracts.2.jobs_left": (0, MAX_COUNT),
    "process.0.n": (1, MAX_COUNT),
    "process.0.weight": (5e-324, MAX_COUNT),
    "references.0.tokens": (0, MAX_TOKENS),
    "references.0.virtual_s": (0, LONGEST_S),
    "sandbox.limits.cpu_s": (1, 86_400),
    "sandbox.limits.memory_bytes": (64 * 2**20, 64 * 2**30),
    "sandbox.limits.processes": (8, 4096),
    "sandbox.limits.disk_bytes": (2**20, 2**30),
    "sandbox.limits.output_bytes": (1024, 2**20),
    "sandbox.limits.command_s": (5e-324, 480),
    "sandbox.settle_s": (0, 600),
    "contracts.3.timeout_s": (5e-324, 480),
}
"""Every number of a task, the weights aside: least and most."""


def written(numbers: dict[str, float], kind: str = "delay") -> dict[str, Any]:
    """A task's fields with these numbers in their places."""
    fields: dict[str, Any] = {
        **BASE,
        "limits": {"turns": 30},
        "view": {"tokens": 8_000},
        "settle": {"limit_s": 60},
        "faults": [{"tool": "schedule_callback", "kind": kind, "delay_s": 1}],
        "contracts": [
            {"kind": "state", "outcomes": [{"changes": [{"collection": "callbacks", "change": "created"}]}]},
            {"kind": "receipts", "tool": "schedule_callback"},
            {"kind": "drain"},
        ],
        "process": [{"rule": "at_most", "call": {"tool": "schedule_callback"}}],
    }
    if any(path.startswith(("sandbox", "contracts.3")) for path in numbers):
        fields["sandbox"] = {"limits": {}}
        tests = {"kind": "tests", "sources": ["*.py"], "hidden_files": {"hidden_tests/test_it.py": ""}}
        fields["contracts"] = [*fields["contracts"], tests]
    fields["references"] = [{**fields["references"][0], "tokens": 0, "virtual_s": 0}]
    for path, number in numbers.items():
        *parents, last = path.split(".")
        place: Any = fields
        for part in parents:
            place = place[int(part)] if part.isdigit() else place[part]
        place[last] = number
    return fields


def numbers_of(schema: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every number in a JSON schema, with where it stands."""
    if isinstance(schema, dict):
        if schema.get("type") in ("integer", "number"):
            yield path, schema
        for name, part in schema.items():
            yield from numbers_of(part, f"{path}/{name}")
    elif isinstance(schema, list):
        for index, part in enumerate(schema):
            yield from numbers_of(part, f"{path}/{index}")


def test_every_number_of_a_task_has_bounds() -> None:
    """A number that is added without them fails here, wherever in a task it stands."""
    found = dict(numbers_of(Task.model_json_schema()))
    bounded = {
        path
        for path, number in found.items()
        if "maximum" in number and number.keys() & {"minimum", "exclusiveMinimum"}
    }
    assert found.keys() == bounded
    assert len(bounded) == len(NUMBERS) + len(Weights.model_fields)


@pytest.mark.parametrize("path", NUMBERS)
def test_a_number_past_its_bounds_is_refused_naming_it(path: str) -> None:
    least, most = NUMBERS[path]
    for number in (least, most):
        Task.model_validate(written({path: number}))
    for number in (least - 1, most + 1, 10**20, 1e300):
        with pytest.raises(ValidationError) as caught:
            Task.model_validate(written({path: number}))
        assert path.rsplit(".", 1)[-1] in str(caught.value)


class Hurries:
    """Does what moves the clock furthest, and submits."""

    async def act(self, view: View) -> Decision:
        ticket = {"ticket_id": "T-2041"}
        plan = (
            call("schedule_callback", **ticket, after_s=LONGEST_S, note="later"),
            call("wait", seconds=LONGEST_S),
            call("get_ticket", **ticket),
            Decision(ask="May I?", tokens=MAX_TOKENS),
            call("wait", seconds=LONGEST_S),
        )
        return plan[view.turn] if view.turn < len(plan) and not view.notice else Decision(submit={"done": 1e300})


EXTREMES = st.fixed_dictionaries({}, optional={path: st.sampled_from(bounds) for path, bounds in NUMBERS.items()})
KINDS = st.sampled_from(["delay", "commit_then_drop", "drop_before_commit", "error_status"])


def test_a_task_of_extremes_plays_to_a_recorded_end(tmp_path: Path) -> None:
    database = open_database(f"sqlite:///{tmp_path / 'worlds.db'}")
    engine = Engine(worlds(), SqlWorlds(database))

    @settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(EXTREMES, KINDS)
    def plays(numbers: dict[str, float], kind: str) -> None:
        try:
            task = Task.model_validate(written(numbers, kind))
        except ValidationError:
            return  # two of the numbers do not go together
        evidence = asyncio.run(rehearse(task, Hurries(), engine))
        tools = engine.describe(task.world)
        assert evidence.ending.end in (End.SUBMITTED, End.BUDGET_EXHAUSTED)
        assert unpack(pack(Trace(task, tools, evidence))).evidence == evidence
        result = examine(task, evidence, tools)
        assert result.validity is Validity.VALID
        assert 0 <= result.score.total <= 1
        assert evidence.facts.now_s == evidence.turns[-1].now_s + task.settle.limit_s, "it has settled"

    plays()
    database.close()


class AtTheEndOfTime:
    """Sets the world's clock near its end, as no task can, and waits."""

    def __init__(self, store: MemoryWorlds, left_s: int) -> None:
        self._store, self._left_s = store, left_s

    async def act(self, view: View) -> Decision:
        if view.turn:
            return give_up("time is over")
        with self._store.transaction() as tx:
            (namespace,) = tx.namespaces()
            row = RowKey("replacement", CLOCK, NOW)
            tx.put_rows(namespace.partition, {row: Overlay(str(CLOCK_END_S - self._left_s).encode())})
        return Decision(calls=(*call("wait", seconds=100).calls, *call("get_ticket", ticket_id="T-2041").calls))


async def test_a_wait_past_the_end_of_the_clock_is_refused_and_the_clock_stays_within() -> None:
    store = MemoryWorlds()
    evidence = await rehearse(
        Task.model_validate(written({"settle.limit_s": 0})),
        AtTheEndOfTime(store, 2),
        Engine(worlds(), store),
        recycle=False,
    )
    waited, read = evidence.turns[0].observations or ()
    assert (waited.status, waited.code) == ("error", "bad_arguments")
    assert waited.message.startswith("seconds: ")
    assert "wait at most 2 more" in waited.message
    assert (read.status, evidence.facts.now_s) == ("ok", CLOCK_END_S)


async def test_a_refused_settle_is_not_passed_over() -> None:
    store = MemoryWorlds()
    task = Task.model_validate(written({"settle.limit_s": 60}))
    with pytest.raises(NotSettled, match="refused: bad_arguments: seconds"):
        await rehearse(task, AtTheEndOfTime(store, 20), Engine(worlds(), store))
