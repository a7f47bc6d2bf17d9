"""Episodes with commands: one sandbox each, that outlives the worker and is never left behind."""

import asyncio
from pathlib import Path

import pytest
from temporalio.client import Client
from temporalio.exceptions import CancelledError

from schemas.decision import Decision
from schemas.episode import End, Validity
from schemas.view import View
from tests.workflow.arena import QUICK, Arena, arena, calls, cause_of, until
from tests.workflow.boxes import (
    ONE_TURN,
    WHOLE,
    assert_no_sandbox,
    box_task,
    boxes,
    evidence_of,
    said,
    sleeper,
    writer,
)
from tiltyard.errors import EnvironmentFailed, SandboxUnreachable


async def test_commands_take_effect_and_their_files_are_evidence(client: Client, tmp_path: Path) -> None:
    async with arena(client, {"writer": writer}, tmp_path) as place, place.worker():
        spec = await place.plan(box_task(), "writer")
        await (await place.start(spec)).result()
        result = await place.outcome(spec)
        assert (result.end, result.score.completion, result.sandbox) == (End.SUBMITTED, 1.0, "bubblewrap")
        evidence = await evidence_of(place, spec)
        assert said(evidence) == WHOLE
        assert evidence.sandbox is not None
        assert [(one.path, one.change) for one in evidence.sandbox.changes] == [("notes.txt", "updated")]
        assert [one.ended for one in evidence.sandbox.facts.commands] == [True] * 3
        assert [turn.now_s for turn in evidence.turns] == [5, 10, 15, 15]
        await place.assert_nothing_left(spec)
        await assert_no_sandbox(place)


async def test_the_digest_is_the_same_however_the_turns_were_sliced(client: Client, tmp_path: Path) -> None:
    async with arena(client, {"writer": writer}, tmp_path) as place, place.worker():
        task = box_task()
        results = [await place.run(task, "writer", tuning) for tuning in (QUICK, ONE_TURN)]
        assert results[0].digests == results[1].digests
        assert results[0].digests.trace


async def test_files_are_kept_after_a_turn_that_may_have_changed_them(client: Client, tmp_path: Path) -> None:
    async def looks(view: View) -> Decision:
        plan = (
            calls("shell", command="echo x > x"),
            calls("read_file", path="x"),
            calls("read_file", path="x"),
            calls("write_file", path="y", content="y"),
        )
        return plan[view.turn] if view.turn < len(plan) else Decision(submit={"done": True})

    async with arena(client, {"looks": looks}, tmp_path) as place, place.worker():
        spec = await place.plan(box_task(), "looks")
        await (await place.start(spec, ONE_TURN)).result()
        turns = (await evidence_of(place, spec)).turns
        assert [bool(turn.checkpoint) for turn in turns] == [True, False, False, True, False]


async def test_the_world_s_clock_makes_up_for_what_commands_cost(client: Client, tmp_path: Path) -> None:
    def decide(view: View) -> Decision:
        plan = (
            calls("add_later", name="apples", after_s=12),
            calls("shell", command="true"),
            calls("shell", command="true"),
            calls("shell", command="true"),
            calls("read", name="apples"),
        )
        return plan[view.turn] if view.turn < len(plan) else Decision(submit={"done": True})

    async with arena(client, {"decide": decide}, tmp_path) as place, place.worker():
        spec = await place.plan(box_task(), "decide")
        await (await place.start(spec)).result()
        evidence = await evidence_of(place, spec)
        first = evidence.turns[0].now_s
        assert [turn.now_s - first for turn in evidence.turns[:4]] == [0, 5, 10, 15]
        assert evidence.turns[4].now_s > first + 15, "the world has seen the time that passed outside of it"
        assert [job.state for job in evidence.facts.jobs] == ["done"]
        assert evidence.facts.now_s == evidence.turns[4].now_s


async def test_a_worker_that_dies_in_a_command_leaves_it_running_and_finds_it_again(
    client: Client, tmp_path: Path
) -> None:
    """The worker's end is not the sandbox's: the command ran once, and the digest is that of a quiet run."""
    async with arena(client, {"writer": writer}, tmp_path) as place:
        async with place.worker():
            quiet = await place.run(box_task(), "writer")
        place.sandboxes.started.shut()
        place.sandboxes.started.reached.clear()
        spec = await place.plan(box_task(), "writer")
        async with place.worker():
            handle = await place.start(spec)
            await place.sandboxes.started.reached.wait()
        place.sandboxes.started.open()
        async with place.worker():
            await handle.result()
        assert set(place.sandboxes.executions.values()) == {1}
        assert (await place.outcome(spec)).digests == quiet.digests
        await assert_no_sandbox(place)


async def test_cancelled_while_the_sandbox_is_being_made(client: Client, tmp_path: Path) -> None:
    """The cancel finds nothing to remove yet, and then the creation succeeds (inspect_k8s_sandbox 75, 250)."""
    async with boxes(client, tmp_path) as (place, gated):
        gated.gates["provision"].shut()
        spec = await place.plan(box_task(), "writer")
        handle = await place.start(spec)
        await gated.gates["provision"].reached.wait()
        await handle.cancel()
        await asyncio.sleep(0.3)
        gated.gates["provision"].open()
        assert isinstance(await cause_of(handle), CancelledError)
        assert (await place.outcome(spec)).end is End.CANCELLED
        await place.assert_nothing_left(spec)
        await assert_no_sandbox(place)


@pytest.mark.parametrize("way", ["stop", "cancel"])
async def test_a_sandbox_that_cannot_be_made_holds_up_no_end(skipping: Client, tmp_path: Path, way: str) -> None:
    """Its step is tried for a day; whoever stops the episode waits for ten seconds of it."""
    async with boxes(skipping, tmp_path) as (place, gated):
        gated.gates["provision"].failing = lambda: EnvironmentFailed("the registry is away")
        spec = await place.plan(box_task(), "writer")
        handle = await place.start(spec)
        await gated.gates["provision"].reached.wait()
        if way == "stop":
            await place.ground.stop(spec.episode_id, "enough")
            await handle.result()
        else:
            await handle.cancel()
            assert isinstance(await cause_of(handle), CancelledError)
        result = await place.outcome(spec)
        assert (result.end, result.reason) == (End.CANCELLED, "enough" if way == "stop" else result.reason)
        await place.assert_nothing_left(spec)
        await assert_no_sandbox(place)


async def test_a_sandbox_that_is_made_when_nobody_waits_any_more_is_collected(
    skipping: Client, tmp_path: Path
) -> None:
    async with boxes(skipping, tmp_path) as (place, gated):
        gated.gates["provision"].shut()
        spec = await place.plan(box_task(), "writer")
        handle = await place.start(spec)
        await gated.gates["provision"].reached.wait()
        await place.ground.stop(spec.episode_id)
        await handle.result()
        gated.gates["provision"].open()
        await until(lambda: _has_sandbox(place))
        await place.clean_up()
        await assert_no_sandbox(place)


async def _has_sandbox(place: Arena) -> bool:
    return bool(await place.sandboxes.sandboxes())


@pytest.mark.parametrize("step", ["call", "settle", "seal", "drain", "facts", "snapshot", "release"])
async def test_cancelled_at_any_step(client: Client, tmp_path: Path, step: str) -> None:
    async with boxes(client, tmp_path) as (place, gated):
        gated.gates[step].shut()
        spec = await place.plan(box_task(settle_s=1), "writer")
        handle = await place.start(spec)
        await gated.gates[step].reached.wait()
        await handle.cancel()
        await asyncio.sleep(0.2)
        await handle.cancel()
        gated.gates[step].open()
        await cause_of(handle)
        await place.assert_nothing_left(spec)
        await assert_no_sandbox(place)


async def test_a_command_in_flight_at_the_seal_is_unknown(client: Client, tmp_path: Path) -> None:
    async with arena(client, {"sleeper": sleeper}, tmp_path) as place, place.worker():
        spec = await place.plan(box_task(), "sleeper")
        handle = await place.start(spec)
        await until(lambda: len(place.sandboxes.executions) == 2)
        await handle.cancel()
        await cause_of(handle)
        evidence = await evidence_of(place, spec)
        assert list(evidence.in_flight.values()) == ["unknown"]
        assert evidence.drain.processes_found > 0
        await assert_no_sandbox(place)


async def test_terminated_in_a_command(client: Client, tmp_path: Path) -> None:
    """The janitor seals, drains and collects for a workflow that is gone, and discards the sandbox."""
    async with arena(client, {"sleeper": sleeper}, tmp_path) as place, place.worker():
        spec = await place.plan(box_task(), "sleeper")
        handle = await place.start(spec)
        await until(lambda: len(place.sandboxes.executions) == 2)
        await handle.terminate()
        assert (await place.clean_up()).reclaimed == (spec.episode_id,)
        assert (await place.outcome(spec)).end is End.TERMINATED
        evidence = await evidence_of(place, spec)
        assert evidence.sandbox is not None
        assert [one.path for one in evidence.sandbox.changes] == ["one.txt"]
        await until(lambda: _none_left(place))


async def _none_left(place: Arena) -> bool:
    return await place.sandboxes.sandboxes() == ()


async def test_terminated_while_the_sandbox_is_being_made(client: Client, tmp_path: Path) -> None:
    """Nobody waits for the provision any more; the janitor finds what it made by its record."""
    async with boxes(client, tmp_path) as (place, gated):
        gate = gated.gates["provision answered"]
        gate.shut()
        spec = await place.plan(box_task(), "writer")
        handle = await place.start(spec)
        await gate.reached.wait()
        await handle.terminate()
        gate.open()
        assert await place.sandboxes.sandboxes() != ()
        await place.clean_up()
        await until(lambda: _none_left(place))
        assert (await place.outcome(spec)).end is End.TERMINATED


async def test_a_host_that_does_not_answer_until_the_deadline(client: Client, tmp_path: Path) -> None:
    """Calls without an end parked episodes, and what failed counted as a score of 0 (NeMo-RL 3470)."""
    async with boxes(client, tmp_path) as (place, gated):
        gated.gates["call"].failing = lambda: SandboxUnreachable("no reply")
        spec = await place.plan(box_task(limits={"command_s": 1}), "writer")
        await (await place.start(spec)).result()
        result = await place.outcome(spec)
        assert (result.end, result.validity) == (End.ENVIRONMENT_ERROR, Validity.ENVIRONMENT)
        await assert_no_sandbox(place)


async def test_a_machine_that_can_make_none_is_said(client: Client, tmp_path: Path) -> None:
    async with arena(client, {"writer": writer}, tmp_path) as place:
        place.sandboxes = type(place.sandboxes)(problems={"bubblewrap": "user namespaces are restricted"})
        async with place.worker():
            result = await place.run(box_task(), "writer")
        assert result.end is End.ENVIRONMENT_ERROR
        assert "user namespaces are restricted" in result.reason
