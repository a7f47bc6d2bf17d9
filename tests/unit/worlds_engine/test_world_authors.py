"""What a world's author can get wrong, and what the engine makes of it."""

from dataclasses import replace
from typing import Any

import pytest

from schemas.base import JsonObject
from schemas.world import TemplateRef
from tiltyard.errors import BadInput
from tiltyard.testing.engine_bench import delivery_request, lease_request
from tiltyard.testing.memory_worlds import MemoryWorlds
from tiltyard.testing.tally_world import TALLY, Tally
from tiltyard.worlds.engine import Engine
from tiltyard.worlds.kit import State, Template, Tool, WorldKind, tool
from tiltyard.worlds.rows import LONGEST_DELAY_S
from tiltyard.worlds.template_reader import CACHED_TEMPLATES, Templates


def world_of(*tools: Tool, template: Template = Template.of({})) -> WorldKind:  # noqa: B008  frozen
    return WorldKind.of("mine", "A world under construction.", tools, lambda name, params: template)


@tool(writes=True)
def touch_the_clock(state: State) -> None:
    """Write a row of the engine's."""
    state.save("~clock", "now", 10**6)


@tool(writes=True)
def read_the_receipts(state: State) -> list[Any]:
    """Read rows of the engine's."""
    return list(state.scan("~receipts"))


@tool(writes=True)
def take_a_sequence(state: State) -> int:
    """Number from a sequence of the engine's."""
    return state.next_id("~jobs")


@tool(writes=True)
def schedule_nothing(state: State) -> str:
    """Schedule a job that the world does not have."""
    return state.schedule("no_such_job", {}, 5)


@tool(writes=True)
def save_nothing(state: State) -> None:
    """Save no body."""
    state.save("things", "a", None)


@tool(writes=True)
def answer_nonsense(state: State) -> object:
    """Return what is not JSON."""
    state.save("things", "a", 1)
    return object()


@tool(writes=True)
def answer_not_a_number(state: State) -> float:
    """Return what JSON does not have."""
    return float("nan")


BROKEN = (
    touch_the_clock,
    read_the_receipts,
    take_a_sequence,
    schedule_nothing,
    save_nothing,
    answer_nonsense,
    answer_not_a_number,
)


@pytest.mark.parametrize("broken", BROKEN, ids=lambda one: one.spec.name)
def test_a_broken_tool_is_an_outcome_and_changes_nothing(broken: Tool) -> None:
    engine = Engine({"mine": world_of(broken)}, MemoryWorlds())
    lease = engine.lease(lease_request(world="mine"))
    reply = engine.call(delivery_request(lease, "d1", broken.spec.name, operation_id="op"))
    assert (reply.shown.code, reply.committed, reply.now_s) == ("tool_failed", False, 1)
    engine.seal(lease.namespace, lease.generation)
    facts = engine.facts(lease.namespace, lease.generation)
    assert (facts.changes, facts.receipts) == ((), ())


def test_a_tool_named_like_one_of_the_engine_s_is_refused() -> None:
    @tool()
    def wait(state: State) -> None:
        """Wait in some other way."""

    with pytest.raises(BadInput, match="wait of its own"):
        Engine({"mine": world_of(wait)}, MemoryWorlds()).describe("mine")


@pytest.mark.parametrize(
    "template",
    [
        Template.of({"~jobs": {"a": 1}}),
        Template.of({}, (("no_such_job", {}, 60),)),
    ],
    ids=["a collection of the engine's", "a job that the world does not have"],
)
def test_a_broken_template_is_never_leased(template: Template) -> None:
    with pytest.raises(BadInput) as caught:
        Engine({"mine": world_of(template=template)}, MemoryWorlds()).lease(lease_request(world="mine"))
    assert caught.value.field.startswith("template")


@pytest.mark.parametrize(
    ("collections", "jobs", "named"),
    [
        ({"things": {"a": 1, "b": {"name": "half \ud800"}}}, (), "things/b"),
        ({"things": {"\udc00": 1}}, (), r"things/\udc00"),
        ({"\ud800": {"a": 1}}, (), r"\ud800/a"),
        ({"things": {"a": float("nan")}}, (), "things/a"),
        ({}, (("later", {"name": "\ud800"}, 60),), "the job later"),
    ],
)
def test_a_row_that_is_no_json_text_is_named_when_the_template_is_made(
    collections: dict[str, Any], jobs: tuple[Any, ...], named: str
) -> None:
    """Neither a view nor a trace could carry it."""
    with pytest.raises(BadInput) as caught:
        Template.of(collections, jobs)
    assert (caught.value.field, bool(caught.value.fix)) == (f"template: {named}", True)
    assert Template.of({"things": {"a": "whole \U0001f600"}}).digest


@pytest.mark.parametrize("due_s", [0, LONGEST_DELAY_S + 1])
def test_a_template_s_jobs_are_due_within_reach(due_s: int) -> None:
    kind = replace(TALLY, template=lambda name, params: Template.of({}, (("break_due", {}, due_s),)))
    with pytest.raises(BadInput, match=f"due at {due_s} s"):
        Engine({"tally": kind}, MemoryWorlds()).lease(lease_request())


def test_templates_are_loaded_once_and_not_all_of_them_are_kept() -> None:
    loaded: list[str] = []

    def template(name: str, params: JsonObject) -> Template:
        loaded.append(name)
        return Template.of({"tallies": {name: Tally(name=name)}})

    kind = WorldKind.of("mine", "Counts its loads.", (), template)
    templates = Templates()
    readers = [templates.reader(kind, TemplateRef(name=name)) for name in ("a", "a", "b", "a")]
    assert (loaded, readers[0] is readers[3]) == (["a", "b"], True)
    for number in range(CACHED_TEMPLATES):
        templates.reader(kind, TemplateRef(name=f"t{number}"))
    assert templates.reader(kind, TemplateRef(name="a")).digest == readers[0].digest
    assert loaded.count("a") == 2


def test_equal_templates_have_equal_digests_and_others_have_others() -> None:
    templates = Templates()
    digests = {
        templates.reader(TALLY, TemplateRef(name=name, params={"size": size})).digest
        for name, size in (("default", 0), ("default", 1), ("jobs", 0), ("jobs", 1))
    }
    assert len(digests) == 4
