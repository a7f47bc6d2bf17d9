"""Rehearsals: whole episodes in this process, whatever a policy does."""

import pytest

from schemas.decision import Decision
from schemas.episode import End
from schemas.task import Task
from schemas.view import View
from tiltyard.errors import EnvironmentFailed
from tiltyard.policies.script import call, give_up
from tiltyard.suite import shipped
from tiltyard.testing.memory_worlds import MemoryWorlds
from tiltyard.testing.rehearse import rehearse
from tiltyard.worlds.engine import Engine
from tiltyard.worlds.replacement.world import WORLD

TASK = shipped().task("replacement/approved/1")


class Plays:
    """Decides as listed, turn by turn, and then gives up."""

    def __init__(self, *decisions: Decision) -> None:
        self._decisions = decisions

    async def act(self, view: View) -> Decision:
        return self._decisions[view.turn] if view.turn < len(self._decisions) else give_up("enough")


class Raises:
    async def act(self, view: View) -> Decision:
        raise ValueError("lost my mind")


@pytest.fixture
def engine() -> Engine:
    return Engine({"replacement": WORLD}, MemoryWorlds())


async def test_nobody_answers_a_question(engine: Engine) -> None:
    evidence = await rehearse(TASK, Plays(Decision(ask="May I?")), engine)
    assert evidence.turns[0].observations is not None
    assert [shown.status for shown in evidence.turns[0].observations] == ["timeout"]
    assert evidence.ending.end is End.GAVE_UP


async def test_a_wait_in_real_time_takes_none(engine: Engine) -> None:
    task = Task.model_validate(TASK.model_dump() | {"waiting": "real"})
    evidence = await rehearse(task, Plays(call("wait", seconds=86_400)), engine)
    assert evidence.turns[0].now_s == 86_400


async def test_a_policy_that_raises_is_an_end_and_its_namespace_is_used_again(engine: Engine) -> None:
    for _ in range(2):
        evidence = await rehearse(TASK, Raises(), engine)
        assert (evidence.ending.end, evidence.turns) == (End.POLICY_ERROR, ())
        assert "lost my mind" in evidence.ending.reason
    assert engine.leases() == ()


async def test_facts_are_those_of_the_drained_world(engine: Engine) -> None:
    """The settling wait is the harness's own, and is not among the turns."""
    late = call("schedule_callback", ticket_id="T-2041", after_s=10**6, note="late")
    evidence = await rehearse(TASK, Plays(late), engine, recycle=False)
    assert [job.state for job in evidence.facts.jobs] == ["cancelled"]
    assert evidence.drain.jobs_cancelled == 1
    assert evidence.facts.now_s == 10 + TASK.settle.limit_s
    assert len(engine.leases()) == 1  # left as it is for a closer look


async def test_a_call_still_under_way_is_noticed_and_the_namespace_is_not_used_again() -> None:
    engine = Engine({"replacement": WORLD}, MemoryWorlds(), drain_limit_s=0)
    with engine.in_flight.call("ns-000001"), pytest.raises(EnvironmentFailed, match="quarantined"):
        await rehearse(TASK, Plays(), engine)
    assert (await rehearse(TASK, Plays(), engine, name="next")).facts.namespace == "ns-000002"
