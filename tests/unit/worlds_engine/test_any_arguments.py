"""I11: whatever arguments come, a tool of a shipped world answers, and an error names the field."""

import itertools
from collections.abc import Mapping

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from schemas.base import JsonObject, JsonValue
from schemas.tool import ToolSpec
from schemas.world import Shown, TemplateRef
from tiltyard.suite.families import shipped
from tiltyard.testing.engine_bench import delivery_request, lease_request
from tiltyard.testing.memory_worlds import MemoryWorlds
from tiltyard.testing.tally_world import TALLY
from tiltyard.worlds.engine import Engine
from tiltyard.worlds.registry import worlds

ENGINE = Engine({**worlds(), "tally": TALLY}, MemoryWorlds())
BUGS = {"add_then_break"}
TOOLS = [
    (world, tool) for world in ("tally", *worlds()) for tool in ENGINE.describe(world) if tool.name not in BUGS
]
EPISODES = itertools.count()
TEMPLATES = {"tally": TemplateRef(), **{task.world: task.template for task in shipped().match(("*/*/1",))}}

SCALARS: st.SearchStrategy[JsonValue] = (
    st.none()
    | st.booleans()
    | st.integers(-(10**20), 10**20)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20)
    | st.sampled_from(["1", "(2 + 3) * 4", "#W0000000", "T-1", "2024-01-01", "no longer needed", "a@b.c"])
)
JSON: st.SearchStrategy[JsonValue] = st.recursive(
    SCALARS, lambda deeper: st.lists(deeper, max_size=3) | st.dictionaries(st.text(max_size=5), deeper, max_size=3)
)


def arguments_of(tool: ToolSpec) -> st.SearchStrategy[JsonObject]:
    """Objects with some of the tool's arguments, of any type or its own, and some that it does not have."""
    properties = tool.parameters.get("properties")
    known = sorted(properties) if isinstance(properties, Mapping) else []
    each: dict[str, st.SearchStrategy[JsonValue]] = {
        name: SCALARS | st.lists(SCALARS, max_size=3) | JSON for name in known
    }
    strange = st.dictionaries(st.text(min_size=1, max_size=5), JSON, max_size=1)
    return st.builds(
        lambda own, other: {**other, **own}, st.fixed_dictionaries({}, optional=each), strange
    ) | st.fixed_dictionaries(each)


def check(tool: ToolSpec, arguments: JsonObject, shown: Shown) -> None:
    assert shown.status in ("ok", "error")
    assert shown.code != "tool_failed", f"{tool.name}({arguments}) is a bug of the world"
    if shown.code == "bad_arguments":
        properties = tool.parameters.get("properties")
        fields = {*arguments, *(properties if isinstance(properties, Mapping) else ())}
        assert any(shown.message.startswith((f"{field[:100]}:", f"{field[:100]}.")) for field in fields), (
            shown.message
        )
        assert tool.name in shown.message or "give" in shown.message, f"no way to mend it: {shown.message}"


@pytest.mark.parametrize(("world", "tool"), TOOLS, ids=[f"{world}-{tool.name}" for world, tool in TOOLS])
def test_any_arguments_get_an_answer(world: str, tool: ToolSpec) -> None:
    @settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(arguments_of(tool))
    def answered(arguments: JsonObject) -> None:
        lease = ENGINE.lease(lease_request(f"ep-{next(EPISODES)}", world=world, template=TEMPLATES[world]))
        request = delivery_request(lease, "d1", tool.name, **arguments)
        reply = ENGINE.call(request)
        check(tool, arguments, reply.shown)
        assert ENGINE.call(request) == reply
        ENGINE.seal(lease.namespace, lease.generation)
        facts = ENGINE.facts(lease.namespace, lease.generation)
        assert facts.deliveries[0].arguments == arguments
        assert not facts.changes or reply.shown.status == "ok", "an error changes nothing"
        ENGINE.drain(lease.namespace, lease.generation)
        assert ENGINE.recycle(lease.namespace, lease.generation)

    answered()
