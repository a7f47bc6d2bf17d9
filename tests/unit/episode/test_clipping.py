"""What a policy is shown is bounded by the task's limit, in every field, and says how much was cut."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.decision import Decision
from schemas.observation import Observation
from schemas.task import Task
from tiltyard.episode.clipping import MAX_CODE, as_shown, clip
from tiltyard.policies.script import call, give_up
from tiltyard.suite import shipped
from tiltyard.testing.memory_worlds import MemoryWorlds
from tiltyard.testing.rehearse import rehearse
from tiltyard.worlds.arguments import MAX_QUOTED
from tiltyard.worlds.engine import Engine
from tiltyard.worlds.registry import worlds

LONG = "x" * 200_000


def shown(**fields: Any) -> Observation:
    return Observation(**{"tool": "t", "status": "error", **fields})


@pytest.mark.parametrize("observation", [shown(), shown(content={"a": 1}, code="c" * MAX_CODE, message="m" * 256)])
def test_what_is_within_the_limit_stays(observation: Observation) -> None:
    assert clip(observation, 256) is observation


@pytest.mark.parametrize(
    ("observation", "kept"),
    [
        (shown(content="é" * 300), shown(content="é" * 128, truncated_bytes=602 - 256)),
        (shown(content=["a" * 300]), shown(content='["' + "a" * 254, truncated_bytes=304 - 256)),
        (shown(message="é" * 300), shown(message="é" * 128, truncated_bytes=600 - 256)),
        (shown(message="aé" * 100), shown(message="aé" * 85 + "a", truncated_bytes=300 - 256)),
        (shown(code="é" * 201), shown(code="é" * 200, truncated_bytes=2)),
        (
            shown(content="a" * 300, message="b" * 300, code="c" * 300),
            shown(content="a" * 256, message="b" * 256, code="c" * 200, truncated_bytes=46 + 44 + 100),
        ),
    ],
    ids=["content", "structured content", "message", "half a character", "code", "all of them"],
)
def test_what_is_over_it_is_cut_and_counted(observation: Observation, kept: Observation) -> None:
    assert clip(observation, 256) == kept


class Sends:
    def __init__(self, decision: Decision) -> None:
        self._decision = decision

    async def act(self, view: Any) -> Decision:
        return self._decision if view.turn == 0 else give_up("enough")


async def first_shown(task: Task, decision: Decision) -> Observation:
    evidence = await rehearse(task, Sends(decision), Engine(worlds(), MemoryWorlds()))
    assert evidence.turns[0].observations is not None
    return evidence.turns[0].observations[0]


async def test_a_refusal_that_repeats_a_long_argument_is_cut() -> None:
    task = shipped().task("retail/exchange/1")
    seen = await first_shown(task, call("get_order_details", order_id=LONG))
    assert seen.status == "error"
    assert len(seen.model_dump_json()) < task.limits.observation_bytes + 1000
    assert seen.truncated_bytes > len(LONG) - task.limits.observation_bytes


@pytest.mark.parametrize(
    "decision",
    [
        call("get_order_details", order_id="#W1", **{LONG: 1}),
        call("get_order_details", order_id={LONG: 1}),
        call("exchange_delivered_order_items", item_ids=[LONG], new_item_ids=LONG),
        call("y" * 200),
    ],
    ids=["a name", "a value", "items", "a tool"],
)
async def test_bad_arguments_are_quoted_in_part(decision: Decision) -> None:
    task = shipped().task("retail/exchange/1")
    seen = await first_shown(task, decision)
    assert seen.code in ("bad_arguments", "unknown_tool")
    assert max(seen.message.count("x"), seen.message.count("y")) <= MAX_QUOTED + 20
    assert (seen.truncated_bytes, len(seen.message) < 2_000) == (0, True)


TEXTS = st.text(st.characters(codec="utf-8"), max_size=40)


@given(TEXTS | st.lists(TEXTS), TEXTS, st.integers(1, 60))
def test_what_was_shown_is_known_again_under_whichever_limit(content: Any, message: str, limit: int) -> None:
    whole = shown(content=content, message=message)
    assert clip(whole, limit) in as_shown(whole, clip(whole, limit))
    longer = shown(content=content, message=message + "x" * 100)
    assert clip(whole, limit) not in as_shown(longer, clip(whole, limit)), "what was cut is counted"
