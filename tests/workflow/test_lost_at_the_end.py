"""Sandboxes that are lost in the last turn, or after it: what the episode is judged by then."""

import asyncio
from pathlib import Path

import pytest
from temporalio.client import Client

from schemas.decision import Decision
from schemas.episode import End, EpisodeSpec, Validity
from schemas.start import Tuning
from schemas.task import Limits
from schemas.view import View
from tests.workflow.arena import QUICK, Arena, arena, calls
from tests.workflow.boxes import (
    UNSLICED,
    GatedSandboxes,
    assert_no_sandbox,
    box_task,
    boxes,
    evidence_of,
)
from tiltyard.errors import SandboxLost, SandboxOutOfMemory


async def _lose_at(
    place: Arena,
    gated: GatedSandboxes,
    step: str,
    spec: EpisodeSpec,
    tuning: Tuning = QUICK,
    loss: type[SandboxLost] = SandboxLost,
) -> None:
    """Run the episode, and lose its sandbox just before ``step``."""
    gated.gates[step].shut()
    gated.gates[step].reached.clear()
    handle = await place.start(spec, tuning)
    await gated.gates[step].reached.wait()
    place.sandboxes.lose(spec.episode_id, loss)
    gated.gates[step].open()
    await handle.result()
    await assert_no_sandbox(place)


@pytest.mark.parametrize("step", ["seal", "drain", "snapshot answered"])
async def test_lost_after_the_last_turn_is_judged_by_what_was_kept_after_it(
    client: Client, tmp_path: Path, step: str
) -> None:
    async with boxes(client, tmp_path) as (place, gated):
        quiet = await place.run(box_task(), "writer")
        spec = await place.plan(box_task(), "writer")
        await _lose_at(place, gated, step, spec)
        result = await place.outcome(spec)
        assert (result.end, result.validity, result.score) == (End.SUBMITTED, Validity.VALID, quiet.score)
        assert result.digests == quiet.digests
        evidence = await evidence_of(place, spec)
        assert evidence.sandbox is not None
        assert evidence.sandbox.lost
        assert [(one.path, one.change) for one in evidence.sandbox.changes] == [("notes.txt", "updated")]


@pytest.mark.parametrize("plan", [{"on_loss": "environment_error"}, {"settle_s": 0.01}], ids=str)
async def test_lost_after_the_last_turn_says_nothing_about_the_policy(
    client: Client, tmp_path: Path, plan: dict[str, object]
) -> None:
    """A task that waits for background work counts it, and it is gone."""
    async with boxes(client, tmp_path) as (place, gated):
        spec = await place.plan(box_task(**plan), "writer")
        await _lose_at(place, gated, "seal", spec)
        result = await place.outcome(spec)
        assert (result.end, result.validity) == (End.ENVIRONMENT_ERROR, Validity.ENVIRONMENT)


async def test_lost_before_the_last_turn_was_kept_is_told_and_the_policy_goes_on(
    client: Client, tmp_path: Path
) -> None:
    """It has submitted work that is gone: that must not be what it is judged by."""
    notices: list[str] = []

    def worker(view: View) -> Decision:
        notices.append(view.notice)
        redo = view.turn == 0 or "was lost" in view.notice
        return calls("shell", command="echo work > work.txt") if redo else Decision(submit={"done": True})

    async with boxes(client, tmp_path, worker=worker) as (place, gated):
        spec = await place.plan(box_task(), "worker")
        await _lose_at(place, gated, "snapshot", spec, UNSLICED)
        result = await place.outcome(spec)
        assert (result.end, result.validity, result.score.completion) == (End.SUBMITTED, Validity.VALID, 1.0)
        assert ["was lost" in notice for notice in notices] == [False, False, True, False]
        evidence = await evidence_of(place, spec)
        assert evidence.sandbox is not None
        assert [one.path for one in evidence.sandbox.changes] == ["work.txt"]


async def test_lost_before_the_last_turn_was_kept_and_no_turn_left(client: Client, tmp_path: Path) -> None:
    async with boxes(client, tmp_path) as (place, gated):
        task = box_task().model_copy(update={"limits": Limits(turns=4)})
        spec = await place.plan(task, "writer")
        await _lose_at(place, gated, "snapshot", spec, UNSLICED)
        result = await place.outcome(spec)
        assert (result.end, result.validity) == (End.ENVIRONMENT_ERROR, Validity.ENVIRONMENT)
        assert "no turn is left" in result.reason


async def test_killed_for_memory_in_the_last_turn_is_told_to_nobody_and_the_policys(
    client: Client, tmp_path: Path
) -> None:
    async with boxes(client, tmp_path) as (place, gated):
        task = box_task().model_copy(update={"limits": Limits(turns=4)})
        spec = await place.plan(task, "writer")
        await _lose_at(place, gated, "snapshot", spec, UNSLICED, SandboxOutOfMemory)
        result = await place.outcome(spec)
        assert (result.end, result.validity) == (End.BUDGET_EXHAUSTED, Validity.VALID)


@pytest.mark.parametrize("plan", [{"on_loss": "environment_error"}, {"settle_s": 0.01}], ids=str)
async def test_killed_for_memory_at_the_end_is_judged_without_files(
    client: Client, tmp_path: Path, plan: dict[str, object]
) -> None:
    """Whoever fills the memory of a sandbox until it is lost is not rid of the trial."""
    async with boxes(client, tmp_path) as (place, gated):
        spec = await place.plan(box_task(**plan), "writer")
        await _lose_at(place, gated, "seal", spec, loss=SandboxOutOfMemory)
        result = await place.outcome(spec)
        assert (result.end, result.validity) == (End.SUBMITTED, Validity.VALID)
        assert "lost before its files were collected" in result.reason
        assert [risk.rule for risk in result.risks] == ["out_of_memory"]
        evidence = await evidence_of(place, spec)
        assert evidence.sandbox is not None
        assert (evidence.sandbox.snapshot, evidence.sandbox.changes, evidence.sandbox.lost) == ("", (), True)


@pytest.mark.parametrize("loss", [SandboxLost, SandboxOutOfMemory])
@pytest.mark.parametrize("on_loss", ["environment_error", "restore"])
async def test_what_the_drain_of_a_sandbox_has_ended_is_counted_when_it_is_lost_then(
    client: Client, tmp_path: Path, on_loss: str, loss: type[SandboxLost]
) -> None:
    def leaver(view: View) -> Decision:
        start = calls("shell", command="sleep 1000 & sleep 1000 &")
        return start if view.turn == 0 else Decision(submit={"done": True})

    async with boxes(client, tmp_path, leaver=leaver) as (place, gated):
        spec = await place.plan(box_task(on_loss=on_loss), "leaver")
        await _lose_at(place, gated, "facts", spec, loss=loss)
        drain = (await place.outcome(spec)).drain
        assert (drain.processes_found, drain.ended_by_term + drain.ended_by_kill) == (2, 2)


@pytest.mark.parametrize("slices_per_run", [1, 500], ids=["each slice in another run", "all in one run"])
async def test_lost_in_the_last_turn_before_the_wall_time_ends(
    client: Client, tmp_path: Path, slices_per_run: int
) -> None:
    """That the policy has been told so is known to the next run of the chain: there is no other last turn."""
    told: list[bool] = []

    async def slow(view: View) -> Decision:
        told.append("last turn" in view.notice)
        await asyncio.sleep(0 if told[-1] else 0.2)
        if told[-1]:
            place.sandboxes.lose(spec.episode_id)
        return calls("shell", command=f"echo {view.turn}")

    async with arena(client, {"slow": slow}, tmp_path) as place, place.worker():
        spec = await place.plan(box_task().model_copy(update={"limits": Limits(wall_s=3)}), "slow")
        handle = await place.start(spec, QUICK.model_copy(update={"slices_per_run": slices_per_run}))
        await client.get_workflow_handle(handle.id).result()
        assert (await place.outcome(spec)).reason == "the sandbox was lost, and no turn is left"
        assert sum(told) == 1
