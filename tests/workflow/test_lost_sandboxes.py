"""Sandboxes that are lost: the policy is told and goes on, or the episode ends so, as the task says."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from temporalio.client import Client

from schemas.decision import Decision
from schemas.episode import End, EpisodeSpec, Validity
from schemas.sandbox import SandboxRef, Snapshot
from schemas.view import View
from tests.workflow.arena import QUICK, Arena, Handle, arena, calls, until
from tests.workflow.boxes import (
    ONE_TURN,
    WHOLE,
    assert_no_sandbox,
    box_task,
    boxes,
    evidence_of,
    said,
    sleeper,
)
from tiltyard.episode.slice_state import MEMORY_LOSSES
from tiltyard.errors import SandboxLost, SandboxOutOfMemory, SandboxUnreachable
from tiltyard.sandbox.keeping import unpack_manifest
from tiltyard.testing.memory_sandboxes import MemorySandboxes
from workflows.episode import EpisodeWorkflow


@pytest.mark.parametrize("kept", [True, False], ids=["with a checkpoint", "before any checkpoint"])
async def test_a_lost_sandbox_is_restored_and_the_policy_is_told(
    client: Client, tmp_path: Path, kept: bool
) -> None:
    """It is lost in the middle of the second command; what the first wrote survives where it was checkpointed."""
    async with arena(client, {"sleeper": sleeper}, tmp_path) as place, place.worker():
        spec = await place.plan(box_task(), "sleeper")
        handle = await place.start(spec, ONE_TURN if kept else QUICK.model_copy(update={"slice_s": 30}))
        await _lose_in_command(place, spec, 1)
        await handle.result()
        evidence = await evidence_of(place, spec)
        assert evidence.turns[1].observations is not None
        (shown,) = evidence.turns[1].observations
        assert shown.code == "sandbox_lost"
        assert ("after turn 0" if kept else "before the first turn") in shown.message
        assert evidence.sandbox is not None
        assert evidence.sandbox.facts.incarnation == 2
        assert [one.path for one in evidence.sandbox.changes] == (["one.txt"] if kept else [])
        result = await place.outcome(spec)
        assert (result.end, result.validity) == (End.SUBMITTED, Validity.VALID)
        assert set(place.sandboxes.executions.values()) == {1}, "what was in flight is never run again"
        await assert_no_sandbox(place)


async def _lose_in_command(
    place: Arena, spec: EpisodeSpec, turn: int, loss: type[SandboxLost] = SandboxLost
) -> None:
    """Wait until the turn's command is in the sandbox, then lose the sandbox."""
    await until(lambda: any(op.endswith(f"/{turn}/0") for op in place.sandboxes.executions))
    place.sandboxes.lose(spec.episode_id, loss)


async def test_a_task_may_rather_end_than_go_on_in_a_restored_sandbox(client: Client, tmp_path: Path) -> None:
    async with arena(client, {"sleeper": sleeper}, tmp_path) as place, place.worker():
        spec = await place.plan(box_task(on_loss="environment_error"), "sleeper")
        handle = await place.start(spec)
        await _lose_in_command(place, spec, 1)
        await handle.result()
        result = await place.outcome(spec)
        assert (result.end, result.validity) == (End.ENVIRONMENT_ERROR, Validity.ENVIRONMENT)
        await assert_no_sandbox(place)


async def test_a_policy_that_has_its_sandbox_killed_for_memory_ends_no_episode_as_the_environments(
    client: Client, tmp_path: Path
) -> None:
    async with arena(client, {"sleeper": sleeper}, tmp_path) as place, place.worker():
        spec = await place.plan(box_task(on_loss="environment_error"), "sleeper")
        handle = await place.start(spec)
        await _lose_in_command(place, spec, 1, SandboxOutOfMemory)
        await handle.result()
        result = await place.outcome(spec)
        assert (result.end, result.validity) == (End.POLICY_ERROR, Validity.VALID)
        assert [(risk.rule, risk.tier) for risk in result.risks] == [("out_of_memory", 2)]
        await assert_no_sandbox(place)


async def test_a_sandbox_that_is_killed_for_memory_again_and_again_is_not_made_anew_for_ever(
    client: Client, tmp_path: Path
) -> None:
    notices: list[str] = []

    def bomber(view: View) -> Decision:
        notices.append(view.notice)
        return calls("shell", command=f"echo {view.turn}")

    async with boxes(client, tmp_path, bomber=bomber) as (place, gated):
        call = gated.gates["call"]

        def killed() -> Exception:
            place.sandboxes.lose(spec.episode_id, SandboxOutOfMemory)
            return SandboxOutOfMemory("its memory is full")

        spec = await place.plan(box_task(), "bomber")
        call.failing = killed
        await (await place.start(spec)).result()
        result = await place.outcome(spec)
        assert (result.end, result.validity) == (End.POLICY_ERROR, Validity.VALID)
        evidence = await evidence_of(place, spec)
        assert said(evidence) == ["sandbox_lost"] * MEMORY_LOSSES
        assert evidence.sandbox is not None
        assert evidence.sandbox.facts.incarnation == MEMORY_LOSSES + 1
        await assert_no_sandbox(place)


async def test_a_sandbox_lost_between_two_turns_is_told_by_a_notice(client: Client, tmp_path: Path) -> None:
    notices: list[str] = []

    def reader(view: View) -> Decision:
        notices.append(view.notice)
        return calls("shell", command="cat notes.txt") if view.turn < 2 else Decision(submit={"done": True})

    async with boxes(client, tmp_path, reader=reader) as (place, gated):
        gated.gates["snapshot"].shut()
        spec = await place.plan(box_task(), "reader")
        handle = await place.start(spec, ONE_TURN)
        await gated.gates["snapshot"].reached.wait()
        place.sandboxes.lose(spec.episode_id)
        gated.gates["snapshot"].open()
        await handle.result()
        assert said(await evidence_of(place, spec)) == ["start\n", "start\n"]
        assert ["before the first turn" in notice for notice in notices] == [False, True, False]


async def test_a_sandbox_lost_at_a_question_is_told_when_the_policy_is_next_asked(
    client: Client, tmp_path: Path
) -> None:
    """The slice that begins with the new sandbox asks the person, not the policy: the notice must outlast it."""
    notices: list[str] = []

    def asker(view: View) -> Decision:
        notices.append(view.notice)
        plan = (calls("shell", command="cat notes.txt"), Decision(ask="May I?"))
        return plan[view.turn] if view.turn < len(plan) else Decision(submit={"done": True})

    async with boxes(client, tmp_path, asker=asker) as (place, gated):
        gated.gates["snapshot"].shut()
        spec = await place.plan(box_task(), "asker")
        handle = await place.start(spec, QUICK.model_copy(update={"slice_s": 30}))
        await gated.gates["snapshot"].reached.wait()
        place.sandboxes.lose(spec.episode_id)
        gated.gates["snapshot"].open()
        await until(lambda: _asks(handle))
        await place.ground.answer(spec.episode_id, "yes")
        await handle.result()
        assert ["was lost" in notice for notice in notices] == [False, False, True]


async def _asks(handle: Handle) -> bool:
    return bool((await handle.query(EpisodeWorkflow.status)).question)


async def test_a_sandbox_lost_before_its_episode_heard_of_it_is_made_anew(client: Client, tmp_path: Path) -> None:
    """It was made, its host died, and the reply with it. No command has run, so nothing is lost but the sandbox."""
    async with boxes(client, tmp_path) as (place, gated):
        spec = await place.plan(box_task(), "writer")
        answered = gated.gates["provision answered"]

        def dies() -> Exception:
            answered.failing = None
            place.sandboxes.lose(spec.episode_id)
            return SandboxUnreachable("the host died with the reply")

        answered.failing = dies
        await (await place.start(spec)).result()
        result = await place.outcome(spec)
        assert (result.end, result.score.completion) == (End.SUBMITTED, 1.0), result.reason
        evidence = await evidence_of(place, spec)
        assert said(evidence) == WHOLE
        assert evidence.sandbox is not None
        assert evidence.sandbox.facts.incarnation == 2
        await assert_no_sandbox(place)


async def test_a_host_that_loses_every_sandbox_ends_the_episode(client: Client, tmp_path: Path) -> None:
    async with boxes(client, tmp_path) as (place, gated):
        spec = await place.plan(box_task(), "writer")

        def dies() -> Exception:
            place.sandboxes.lose(spec.episode_id)
            return SandboxUnreachable("the host died with the reply")

        gated.gates["provision answered"].failing = dies
        gated.gates["provision answered"].reached.clear()
        await (await place.start(spec)).result()
        result = await place.outcome(spec)
        assert (result.end, result.validity) == (End.ENVIRONMENT_ERROR, Validity.ENVIRONMENT)


async def test_the_policy_is_told_which_files_could_not_be_kept(client: Client, tmp_path: Path) -> None:
    """They are missing from the new sandbox, and nobody would know."""
    skipped = tuple(f"large-{number}: more than what is left of the limit" for number in range(7))
    shown: list[str] = []

    class KeepsNotAll(MemorySandboxes):
        async def snapshot(self, sandbox: SandboxRef, known: Mapping[str, str]) -> Snapshot:
            return (await super().snapshot(sandbox, known)).model_copy(update={"skipped": skipped})

    def loser(view: View) -> Decision:
        shown.append(view.notice)
        if view.turn == 1:
            place.sandboxes.lose(spec.episode_id)
        return calls("shell", command="echo x > x") if view.turn < 3 else Decision(submit={"done": True})

    async with arena(client, {"loser": loser}, tmp_path) as place:
        place.sandboxes = KeepsNotAll()
        async with place.worker():
            spec = await place.plan(box_task(), "loser")
            await (await place.start(spec, ONE_TURN)).result()
        turns = (await evidence_of(place, spec)).turns
        assert turns[1].observations is not None
        for told in (turns[1].observations[0].message, shown[2]):
            assert "after turn 0, without those that could not be kept (large-0: more than what is left of" in told
            assert told.count("large-") == 5
            assert "; and 2 more)" in told


@pytest.mark.parametrize("what", ["manifest", "contents"])
async def test_files_that_the_store_has_lost_end_the_episode(client: Client, tmp_path: Path, what: str) -> None:
    """At once, and not after a day of trying: they will not come back."""

    async def loser(view: View) -> Decision:
        if view.turn == 1:
            objects = place.objects.contents
            (turn,) = await place.journal.read(spec.episode_id, 1)
            manifest = unpack_manifest(objects[turn.checkpoint])
            del objects[turn.checkpoint if what == "manifest" else manifest.packs[0].name]
            place.sandboxes.lose(spec.episode_id)
        return calls("shell", command="echo x > x")

    async with arena(client, {"loser": loser}, tmp_path) as place, place.worker():
        spec = await place.plan(box_task(), "loser")
        await (await place.start(spec, ONE_TURN)).result()
        result = await place.outcome(spec)
        assert (result.end, result.validity) == (End.ENVIRONMENT_ERROR, Validity.ENVIRONMENT)
        assert "the files kept after turn 0 cannot be brought back: object sha256:" in result.reason
