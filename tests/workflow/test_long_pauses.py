"""Days in which nothing runs: an episode is paused, or waits, and goes on with another worker on another host."""

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.testing import TimeSkipper

from schemas.decision import Decision
from schemas.episode import End
from schemas.start import Tuning
from schemas.status import SandboxHolding
from schemas.task import Limits, Task, ViewLimit
from schemas.view import View
from tests.workflow.arena import Arena, Handle, arena, calls, tally_task, total_of, until
from tests.workflow.boxes import box_task, evidence_of, said
from tests.workflow.two_hosts import HURRIED, host
from tiltyard.testing.gated_world import Gate
from tiltyard.testing.memory_sandboxes import MemorySandboxes

DAY = 86_400
BUDGET_S = 600
"""Much less than a day: a pause that was charged would end the episode."""


class Calm:
    """A client of the server whose time can be skipped, whose workflows skip none by themselves."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self._skipper = TimeSkipper(client)

    async def pass_by(self, handle: Handle, days: float) -> None:
        """So much time passes for this workflow."""
        assert await self._skipper.fast_forward(handle, timedelta(days=days))


@pytest.fixture
async def calm(skipping: Client) -> Calm:
    target = skipping.service_client.config.target_host
    return Calm(await Client.connect(target, data_converter=pydantic_data_converter))


class Slow:
    """Four turns, each behind a gate; ``notices`` are what it was told."""

    def __init__(self, *decisions: Decision) -> None:
        self.gate, self.notices, self._decisions = Gate(), list[str](), decisions
        self.gate.shut()

    async def __call__(self, view: View) -> Decision:
        self.notices.append(view.notice)
        await self.gate.passing()
        return self._decisions[view.turn]


DONE = Decision(submit={"done": True})


async def _paused(place: Arena, handle: Handle, episode_id: str, gate: Gate, given_up: bool) -> None:
    """Pause it in the middle of a turn, which is then finished; with its sandbox given up, if it has one."""
    await gate.reached.wait()
    await place.ground.pause(episode_id)
    gate.open()
    await until(lambda: _phase_is(place, episode_id, "paused"))
    if given_up:
        await until(lambda: _is_given_up(handle))


async def _phase_is(place: Arena, episode_id: str, phase: str) -> bool:
    return (await place.ground.status(episode_id)).phase == phase


async def _is_given_up(handle: Handle) -> bool:
    held: SandboxHolding = await handle.query("sandbox", result_type=SandboxHolding)
    return held.place.state == "given_up" and not held.changing


async def test_paused_for_a_day_and_resumed_by_the_worker_of_another_host(calm: Calm, tmp_path: Path) -> None:
    slow = Slow(*(calls("add", name="apples", amount=turn + 1) for turn in range(4)), DONE)
    async with arena(calm.client, {"slow": slow}, tmp_path) as place:
        spec = await place.plan(tally_task(limits=Limits(wall_s=BUDGET_S)), "slow")
        tuning, began = HURRIED.model_copy(update={"slices_per_run": 2}), datetime.now(UTC)
        async with host(place, "a", MemorySandboxes()):
            first = await place.start(spec, tuning)
            handle: Handle = place.client.get_workflow_handle(first.id)
            await _paused(place, handle, spec.episode_id, slow.gate, given_up=False)
        await calm.pass_by(handle, days=1)
        async with host(place, "b", MemorySandboxes()):
            assert (await place.ground.status(spec.episode_id)).paused
            await place.ground.resume(spec.episode_id)
            await handle.result()
        result = await place.outcome(spec)
        assert (result.end, result.counts.turns, result.counts.effects) == (End.SUBMITTED, 5, 4), result.reason
        assert not any(slow.notices), "nobody was told that the time was over"
        assert result.timings["turns"] < BUDGET_S
        ended = (await handle.describe()).close_time
        assert ended is not None
        assert ended - began >= timedelta(days=1), "no day has passed"


async def test_and_with_a_sandbox_that_was_given_up_meanwhile(calm: Calm, tmp_path: Path) -> None:
    slow = Slow(
        *(calls("shell", command=f"echo line-{turn} >> notes.txt; cat notes.txt") for turn in range(2)), DONE
    )
    async with arena(calm.client, {"slow": slow}, tmp_path) as place:
        spec = await place.plan(box_task().model_copy(update={"limits": Limits(wall_s=BUDGET_S)}), "slow")
        tuning = HURRIED.model_copy(update={"keep_sandbox_s": 0})
        async with host(place, "a", MemorySandboxes()):
            handle = await place.start(spec, tuning)
            await _paused(place, handle, spec.episode_id, slow.gate, given_up=True)
        await calm.pass_by(handle, days=1)
        async with host(place, "b", MemorySandboxes()):
            await place.ground.resume(spec.episode_id)
            await handle.result()
        result = await place.outcome(spec)
        assert (result.end, result.counts.turns) == (End.SUBMITTED, 3), result.reason
        assert said(await evidence_of(place, spec)) == ["start\nline-0\n", "start\nline-0\nline-1\n"]
        assert ["put away" in notice for notice in slow.notices] == [False, True, False]


def _monthly(view: View) -> Decision:
    """Waits ten days, asks, and waits twenty more."""
    plan = (
        calls("add_later", name="apples", after_s=29 * DAY),
        calls("wait", seconds=10 * DAY),
        Decision(ask="Shall I wait on?"),
        calls("wait", seconds=20 * DAY),
        calls("read", name="apples"),
    )
    return plan[view.turn] if view.turn < len(plan) else total_of(view)


def _month() -> Task:
    limits = Limits(wall_s=60 * DAY, answer_s=20 * DAY)
    return tally_task(waiting="real", limits=limits, view=ViewLimit(tokens=2_000))


async def test_thirty_days_in_real_time_with_an_approval_in_the_middle(calm: Calm, tmp_path: Path) -> None:
    """Durable timers; the question waits five days for its answer, which is in the wall-time budget."""
    async with arena(calm.client, {"monthly": _monthly}, tmp_path) as place, place.worker():
        spec = await place.plan(_month(), "monthly")
        first = await place.start(spec, Tuning(slice_turns=1, slices_per_run=1, heartbeat_s=2))
        handle: Handle = place.client.get_workflow_handle(first.id)
        await until(lambda: _phase_is(place, spec.episode_id, "waiting"))
        await calm.pass_by(handle, days=10)
        await until(lambda: _phase_is(place, spec.episode_id, "question"))
        await calm.pass_by(handle, days=5)
        assert await _phase_is(place, spec.episode_id, "question"), "nobody has answered yet"
        await place.ground.answer(spec.episode_id, "yes")
        await until(lambda: _phase_is(place, spec.episode_id, "waiting"))
        await calm.pass_by(handle, days=20)
        await asyncio.wait_for(handle.result(), 60)
        result = await place.outcome(spec)
        assert (result.end, result.answer) == (End.SUBMITTED, {"total": 1}), result.reason
        assert 35 * DAY <= result.timings["turns"] < 36 * DAY
        evidence = await evidence_of(place, spec)
        assert evidence.facts.now_s >= 30 * DAY
        assert evidence.turns[2].observations is not None
        assert evidence.turns[2].observations[0].content == "yes"
