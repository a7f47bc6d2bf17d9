"""A run can be forked at every one of its calls, and the fork comes to what the run came to."""

import asyncio
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from infra.stores.database import open_database
from infra.stores.world_store import SqlWorlds
from schemas.base import JsonObject, JsonValue
from schemas.fault import Fault
from schemas.task import Task
from schemas.world import LeaseRequest, TemplateRef
from tiltyard.policies.catalogue import open_script
from tiltyard.suite.families import shipped
from tiltyard.testing.engine_bench import lease_request
from tiltyard.testing.fork_checks import EVERYTHING, PLAN, Asked, forks_flaws
from tiltyard.testing.memory_worlds import MemoryWorlds
from tiltyard.testing.rehearse import rehearse
from tiltyard.testing.tally_world import TALLY
from tiltyard.worlds.engine import Engine
from tiltyard.worlds.registry import worlds

WORLDS = {**worlds(), "tally": TALLY}

NAMES = st.sampled_from(["apples", "pears", "plums", "é\x00"])
SENT_UNDER: st.SearchStrategy[JsonObject] = st.sampled_from(
    [{}, {}, {"operation_id": "op-1"}, {"operation_id": "op-2"}]
)


NOTHING: st.SearchStrategy[JsonObject] = st.just({})


def calls_of(
    tool: str, under: st.SearchStrategy[JsonObject] = NOTHING, **arguments: st.SearchStrategy[JsonValue]
) -> st.SearchStrategy[Asked]:
    whole: st.SearchStrategy[tuple[JsonObject, JsonObject]] = st.tuples(st.fixed_dictionaries(arguments), under)
    return whole.map(lambda parts: Asked(tool, parts[0] | parts[1]))


RUNS = st.lists(
    st.one_of(
        calls_of("add", SENT_UNDER, name=NAMES, amount=st.integers(1, 3)),
        calls_of("add_later", SENT_UNDER, name=NAMES, after_s=st.integers(0, 90)),
        calls_of("tick", name=NAMES, every_s=st.integers(1, 40), times=st.integers(1, 4)),
        calls_of("wait", seconds=st.integers(1, 120)),
        calls_of("remove", name=NAMES),
        calls_of("read", name=NAMES),
        calls_of("number"),
        calls_of("add_then_refuse", name=NAMES),
        calls_of("subtract", name=NAMES),
        calls_of("get_receipt", operation_id=st.sampled_from(["op-1", "op-2"])),
    ),
    min_size=1,
    max_size=8,
)
PLANS = st.lists(
    st.builds(
        Fault,
        tool=st.sampled_from(["add", "add_later", "wait", "read"]),
        kind=st.sampled_from(["commit_then_drop", "drop_before_commit", "delay", "error_status"]),
        nth=st.none() | st.integers(1, 3),
        from_s=st.sampled_from([0, 0, 30]),
        delay_s=st.just(7),
    ),
    max_size=2,
)


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(RUNS, PLANS, st.sampled_from(["default", "jobs"]), st.sampled_from([0, 4]))
def test_any_run_can_be_forked_anywhere(calls: list[Asked], plan: list[Fault], template: str, pace_s: int) -> None:
    """Whatever is pending, planned, waited for or spent elsewhere at the cut."""
    store = MemoryWorlds()
    request = lease_request(template=TemplateRef(name=template), faults=tuple(plan), seed=7)
    timed = [asked._replace(elsewhere_s=pace_s * turn) for turn, asked in enumerate(calls)]
    assert list(forks_flaws(Engine(WORLDS, store), store, request, timed)) == []


def played(task: Task) -> tuple[LeaseRequest, list[Asked]]:
    """What the task's first reference asks of the world."""
    script = open_script(f"reference:{task.references[0].name}", task)
    evidence = asyncio.run(rehearse(task, script, Engine(WORLDS, MemoryWorlds())))
    request = lease_request(task.id, world=task.world, template=task.template, faults=task.faults)
    return request, [Asked(one.tool, one.arguments) for one in evidence.facts.deliveries]


@pytest.mark.parametrize(
    "task", [task for task in shipped().match(("*/*/1",)) if not task.needs_sandbox], ids=lambda task: str(task.id)
)
def test_a_reference_of_every_family_can_be_forked_anywhere(task: Task) -> None:
    store = MemoryWorlds()
    request, calls = played(task)
    assert list(forks_flaws(Engine(WORLDS, store), store, request, calls)) == []


def test_on_sqlite_too(tmp_path: Path) -> None:
    database = open_database(f"sqlite:///{tmp_path}/worlds.db")
    store = SqlWorlds(database)
    request = lease_request(template=TemplateRef(name="jobs"), faults=PLAN)
    assert list(forks_flaws(Engine(WORLDS, store), store, request, EVERYTHING)) == []
    database.close()
