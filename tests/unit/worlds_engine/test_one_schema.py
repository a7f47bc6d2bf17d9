"""Every tool has one schema, used for prompting, parsing and calling, with a digest stored with each result."""

import pytest

from schemas.decision import Decision
from schemas.evidence import Evidence
from schemas.tool import ToolSpec, tools_digest
from schemas.view import View
from tiltyard.episode.grading import examine
from tiltyard.sandbox.tools import SANDBOX_TOOLS
from tiltyard.suite import shipped
from tiltyard.testing.memory_worlds import MemoryWorlds
from tiltyard.testing.rehearse import rehearse
from tiltyard.worlds.engine import Engine
from tiltyard.worlds.registry import worlds

WORLDS = sorted(worlds())


@pytest.mark.parametrize("world", WORLDS)
def test_the_schema_that_is_shown_is_the_one_that_parses(world: str) -> None:
    shown = {tool.name: tool for tool in Engine(worlds(), MemoryWorlds()).describe(world)}
    for name, tool in worlds()[world].tools.items():
        assert shown[name] == tool.spec
        assert tool.spec.parameters == tool.arguments.model_json_schema()
        assert tool.spec.parameters["additionalProperties"] is False
        assert ("operation_id" in tool.spec.parameters["properties"]) == tool.spec.writes  # type: ignore[operator]
    assert {"wait", "get_receipt"} <= shown.keys()


async def played(world: str) -> tuple[list[View], Evidence, Engine]:
    engine, seen = Engine(worlds(), MemoryWorlds()), list[View]()

    class Looking:
        async def act(self, view: View) -> Decision:
            seen.append(view)
            return Decision(give_up="only looking")

    task = shipped().match([f"{world}/*/1"])[0]
    return seen, await rehearse(task, Looking(), engine), engine


@pytest.mark.parametrize("world", WORLDS)
async def test_what_a_policy_is_shown_is_digested_with_the_result(world: str) -> None:
    seen, evidence, engine = await played(world)
    task = shipped().match([f"{world}/*/1"])[0]
    commands = tuple(SANDBOX_TOOLS.values()) if task.needs_sandbox else ()
    result = examine(task, evidence, (*engine.describe(world), *commands))
    assert result.digests.tools == tools_digest(seen[0].tools)


def test_any_change_of_a_tool_changes_the_digest() -> None:
    tool = ToolSpec(name="read", description="Reads.", parameters={"type": "object"})
    digest = tools_digest((tool,))
    changes: dict[str, object] = {
        "name": "look",
        "description": "Reads it.",
        "parameters": {"type": "object", "title": "x"},
        "writes": True,
        "cost_s": 2,
    }
    for field, value in changes.items():
        assert tools_digest((tool.model_copy(update={field: value}),)) != digest, field


def test_the_digest_does_not_depend_on_the_order_of_tools() -> None:
    tools = Engine(worlds(), MemoryWorlds()).describe(WORLDS[0])
    assert tools_digest(tools) == tools_digest(tuple(reversed(tools)))
