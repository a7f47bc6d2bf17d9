"""A policy's own errors are told from the deadline of its turn."""

import asyncio
from typing import Any

import pytest

from schemas.decision import Decision
from schemas.episode import End
from schemas.task import Task
from schemas.view import View
from tiltyard.suite import shipped
from tiltyard.testing.memory_worlds import MemoryWorlds
from tiltyard.testing.rehearse import rehearse
from tiltyard.worlds.engine import Engine
from tiltyard.worlds.replacement.world import WORLD


class TimesOutItself:
    """Its own client lost patience, long before the turn's deadline."""

    async def act(self, view: View) -> Decision:
        raise TimeoutError("no answer from the model")


class Hangs:
    async def act(self, view: View) -> Decision:
        await asyncio.Event().wait()
        raise AssertionError


class HangsAndBreaks:
    """Fails in its own way when it is cancelled at the deadline."""

    async def act(self, view: View) -> Decision:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise ValueError("cancelled, badly") from None
        raise AssertionError


def task_within(**limits: float) -> Task:
    task: dict[str, Any] = shipped().task("replacement/approved/1").model_dump(mode="json")
    return Task.model_validate({**task, "limits": {**task["limits"], **limits}})


@pytest.mark.parametrize("limits", [{"wall_s": 60, "turn_s": 120}, {"wall_s": 120, "turn_s": 60}])
async def test_a_timeout_of_the_policy_s_own_is_its_error(limits: dict[str, float]) -> None:
    engine = Engine({"replacement": WORLD}, MemoryWorlds())
    ending = (await rehearse(task_within(**limits), TimesOutItself(), engine)).ending
    assert (ending.end, ending.reason) == (
        End.POLICY_ERROR,
        "the policy raised TimeoutError: no answer from the model",
    )


@pytest.mark.parametrize("policy", [Hangs(), HangsAndBreaks()])
async def test_the_deadline_of_a_turn_is_said(policy: Hangs | HangsAndBreaks) -> None:
    engine = Engine({"replacement": WORLD}, MemoryWorlds())
    ending = (await rehearse(task_within(turn_s=0.01), policy, engine)).ending
    assert (ending.end, ending.reason) == (End.POLICY_ERROR, "the policy gave no decision within 0.01 s")
