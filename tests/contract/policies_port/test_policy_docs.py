"""The examples of docs/policies.md work as they stand there, and its tables name every field."""

import re
from pathlib import Path

import pytest

from schemas.decision import Call, Decision
from schemas.observation import Observation
from schemas.view import Turn, View
from tests.contract.policies_port.bench import Open, view

PAGE = (Path(__file__).parents[3] / "docs" / "policies.md").read_text()
LISTS = Decision(calls=(Call(tool="list_policies"),))


def example(name: str) -> str:
    found = re.search(rf"```\w+ {re.escape(name)}\n(.*?)```", PAGE, re.DOTALL)
    assert found is not None
    return found[1]


async def test_the_example_in_python(opened: Open, folder: Path) -> None:
    (folder / "bot.py").write_text(example("bot.py"))
    policy = await opened("bot:act")
    first = await policy.act(view())
    assert first.calls == LISTS.calls
    shown = Observation(tool="list_policies", status="ok", content=["P-1"])
    later = view(1).model_copy(update={"transcript": (Turn(decision=first, observations=(shown,)),)})
    assert (await policy.act(later)).submit == {"answer": ["P-1"]}


async def test_the_example_in_a_shell(opened: Open, folder: Path) -> None:
    (folder / "agent.sh").write_text(example("agent.sh"))
    policy = await opened("exec:sh agent.sh")
    for turn in range(3):
        assert await policy.act(view(turn)) == LISTS


@pytest.mark.parametrize(("title", "model"), [("### The view", View), ("### The decision", Decision)])
def test_the_tables_name_every_field(title: str, model: type[View] | type[Decision]) -> None:
    section = PAGE.partition(title)[2].partition("\n#")[0]
    named = re.findall(r"`(\w+)`", "".join(re.findall(r"^\| (`[^|]*)\|", section, re.MULTILINE)))
    assert sorted(named) == sorted(model.model_fields)
