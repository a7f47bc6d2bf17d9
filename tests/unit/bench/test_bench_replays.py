"""What the subject ``replays`` tells, and the policy that it has thinking."""

import asyncio
from typing import Any

from ops.bench import replays, thinking
from schemas.decision import Decision
from schemas.view import View
from tiltyard.episode.grading import examine
from tiltyard.testing.memory_worlds import MemoryWorlds
from tiltyard.testing.rehearse import rehearse
from tiltyard.worlds.engine import Engine
from tiltyard.worlds.registry import worlds


class Thinks:
    """The policy in this process."""

    async def act(self, view: View) -> Decision:
        decided: dict[str, Any] = thinking.act(view.model_dump(mode="json"))
        return Decision.model_validate(decided)


def test_the_thinking_policy_completes_its_task_in_as_many_turns_as_are_asked_for() -> None:
    task, engine = replays._task(3), Engine(worlds(), MemoryWorlds())
    evidence = asyncio.run(rehearse(task, Thinks(), engine))
    result = examine(task, evidence, engine.describe(task.world))
    assert (result.counts.turns, result.score.completion) == (3, 1)


def test_the_ratio_is_how_many_times_faster_a_replay_is() -> None:
    episode, replay, turn, rate = replays._figures(100, [25.0] * 4, [0.5] * 20, [12.0], 16)
    assert (episode.ratio, episode.against, episode.verdict) == (50, replay.what, "met")
    assert turn.median == 5
    assert (rate.median, rate.episodes, rate.unit) == (12, 16, "/s")
    slow = replays._figures(100, [9.0] * 4, [0.5], [1.0], 1)[0]
    assert slow.verdict == "missed"
    few = replays._figures(20, [25.0], [0.5], [1.0], 1)[0]
    assert few.verdict == "too few"
