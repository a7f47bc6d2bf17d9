"""Waiting for days: an advance of the world's clock, or a durable timer in real time (here: skipped)."""

from datetime import datetime, timedelta
from pathlib import Path

import pytest
from temporalio.client import Client

from schemas.decision import Decision
from schemas.episode import End
from schemas.start import Tuning
from schemas.task import Limits, Settle
from schemas.view import View
from tests.workflow.arena import arena, calls, tally_task, total_of
from tiltyard.trace import unpack

DAY = 86_400


def patient(view: View) -> Decision:
    """Puts work off for two days, waits three, and looks."""
    plan = (
        calls("add_later", name="apples", after_s=2 * DAY),
        calls("wait", seconds=3 * DAY),
        calls("read", name="apples"),
    )
    return plan[view.turn] if view.turn < len(plan) else total_of(view)


async def test_a_simulated_wait_runs_what_comes_due_and_takes_no_time(client: Client, tmp_path: Path) -> None:
    async with arena(client, {"patient": patient}, tmp_path) as place, place.worker():
        spec = await place.plan(tally_task(), "patient")
        handle = await place.start(spec)
        await handle.result()
        result = await place.outcome(spec)
        evidence = unpack(await place.objects.get(result.trace)).evidence
        assert evidence.facts.now_s >= 3 * DAY
        assert result.answer == {"total": 1}
        described = await handle.describe()
        assert described.close_time is not None
        assert described.close_time - described.start_time < timedelta(minutes=1)


async def test_a_real_wait_is_a_durable_timer(skipping: Client, tmp_path: Path) -> None:
    async with arena(skipping, {"patient": patient}, tmp_path) as place, place.worker():
        spec = await place.plan(tally_task(waiting="real", limits=Limits(wall_s=10 * DAY)), "patient")
        handle = await place.start(spec)
        await handle.result()
        result = await place.outcome(spec)
        assert (result.end, result.answer) == (End.SUBMITTED, {"total": 1})
        assert await _slept(handle.id, skipping) == timedelta(days=3)
        await place.assert_nothing_left(spec)


async def _slept(workflow_id: str, client: Client) -> timedelta:
    history = await client.get_workflow_handle(workflow_id).fetch_history()
    timers = [event.timer_started_event_attributes for event in history.events]
    return sum((timer.start_to_fire_timeout.ToTimedelta() for timer in timers if timer.timer_id), start=timedelta())


async def test_a_real_wait_past_the_wall_budget_ends_the_episode(client: Client, tmp_path: Path) -> None:
    async with arena(client, {"patient": patient}, tmp_path) as place, place.worker():
        began = datetime.now().astimezone()
        result = await place.run(tally_task(waiting="real", limits=Limits(wall_s=3600)), "patient")
        assert result.end is End.BUDGET_EXHAUSTED
        assert result.reason.startswith("wall time")
        assert datetime.now().astimezone() - began < timedelta(minutes=30)


async def test_a_real_wait_outlives_a_run_that_continues_as_new(skipping: Client, tmp_path: Path) -> None:
    async with arena(skipping, {"patient": patient}, tmp_path) as place, place.worker():
        spec = await place.plan(tally_task(waiting="real", limits=Limits(wall_s=10 * DAY)), "patient")
        handle = await place.start(spec, Tuning(slice_turns=1, slices_per_run=1))
        await skipping.get_workflow_handle(handle.id).result()
        assert (await place.outcome(spec)).answer == {"total": 1}


async def test_what_was_used_of_the_wall_budget_is_carried_from_run_to_run(
    skipping: Client, tmp_path: Path
) -> None:
    def waiting(view: View) -> Decision:
        return calls("wait", seconds=DAY + view.turn)

    async with arena(skipping, {"waiting": waiting}, tmp_path) as place, place.worker():
        spec = await place.plan(tally_task(waiting="real", limits=Limits(wall_s=3.5 * DAY)), "waiting")
        handle = await place.start(spec, Tuning(slice_turns=1, slices_per_run=1))
        await skipping.get_workflow_handle(handle.id).result()
        result = await place.outcome(spec)
        assert (result.end, result.counts.turns) == (End.BUDGET_EXHAUSTED, 4)


@pytest.mark.parametrize(("limit_s", "total", "cancelled"), [(0, 0, 1), (3 * DAY, 1, 0)])
async def test_settling_waits_for_background_work_only_as_far_as_the_task_says(
    client: Client, tmp_path: Path, limit_s: int, total: int, cancelled: int
) -> None:
    def hasty(view: View) -> Decision:
        return Decision(submit={}) if view.turn else calls("add_later", name="apples", after_s=2 * DAY)

    async with arena(client, {"hasty": hasty}, tmp_path) as place, place.worker():
        result = await place.run(tally_task(settle=Settle(limit_s=limit_s)), "hasty")
        evidence = unpack(await place.objects.get(result.trace)).evidence
        totals = [change.after["total"] for change in evidence.facts.changes if isinstance(change.after, dict)]
        assert sum(int(str(value)) for value in totals) == total
        assert result.drain.jobs_cancelled == cancelled
        assert (result.counts.tool_calls, result.counts.effects) == (1, 1), "settling is the harness's doing"
