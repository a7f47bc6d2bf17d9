"""The budget of tool calls: what is past it reaches no world, and nobody counts it."""

import pytest

from schemas.decision import Call, Decision
from schemas.episode import End
from schemas.task import Task
from schemas.view import View
from tiltyard.episode.grading import examine
from tiltyard.graders.efficiency import used
from tiltyard.graders.trial import Trial
from tiltyard.suite import shipped
from tiltyard.testing.memory_worlds import MemoryWorlds
from tiltyard.testing.rehearse import rehearse
from tiltyard.worlds.engine import Engine
from tiltyard.worlds.replacement.world import WORLD

SHIPPED = shipped().task("replacement/approved/1")


class Greedy:
    """Always as many calls in one turn."""

    def __init__(self, calls: int) -> None:
        self.calls, self.left = calls, [0]

    async def act(self, view: View) -> Decision:
        self.left.append(view.budgets.tool_calls)
        return Decision(calls=(Call(tool="list_policies"),) * (self.calls if view.turn else 1))


@pytest.mark.parametrize(("limit", "calls"), [(3, 5), (3, 2), (4, 3), (1, 32)])
async def test_refused_calls_are_counted_nowhere(limit: int, calls: int) -> None:
    task = Task.model_validate(
        {
            **SHIPPED.model_dump(),
            "limits": SHIPPED.limits.model_copy(update={"tool_calls": limit}),
            "polling_tools": ("list_policies",),
        }
    )
    engine, policy = Engine({"replacement": WORLD}, MemoryWorlds()), Greedy(calls)
    evidence = await rehearse(task, policy, engine)
    tools = engine.describe(task.world)
    result = examine(task, evidence, tools)
    assert (result.end, result.reason) == (End.BUDGET_EXHAUSTED, "tool_calls")
    trial = Trial(task, evidence.facts, evidence.turns, result.end, tools)
    assert len(trial.deliveries) == result.counts.tool_calls == used(trial).tool_calls == limit
    assert policy.left[-1] == 0
    shown = [one for turn in evidence.turns for one in turn.observations or ()]
    assert {one.code for one in shown[limit:]} <= {"budget_exhausted"}
