"""Episodes with commands: one sandbox each, that outlives the worker, is lost honestly and never left behind."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client
from temporalio.exceptions import CancelledError

from schemas.contract import AnswerContract
from schemas.decision import Decision
from schemas.episode import End, EpisodeSpec, Validity
from schemas.evidence import Evidence
from schemas.sandbox import SandboxPlan
from schemas.start import Tuning
from schemas.task import Task
from schemas.view import View
from tests.workflow.arena import QUICK, Arena, Handle, arena, calls, cause_of, tally_task, until
from tiltyard.errors import SandboxUnreachable
from tiltyard.ports import Sandboxes
from tiltyard.testing.gated_world import Gate
from tiltyard.testing.memory_policies import Act
from tiltyard.trace import unpack
from workflows.episode import EpisodeWorkflow

ONE_TURN = Tuning(heartbeat_s=2, slice_s=0.5, slice_turns=1, patience_s=60)


def box_task(**plan: object) -> Task:
    """Writes a file, adds to it by a command, and says so."""
    sandbox = SandboxPlan.model_validate({"files": {"notes.txt": "start\n"}, **plan})
    return tally_task(sandbox=sandbox, contracts=(AnswerContract(accept=({"done": True},)),))


async def writer(view: View) -> Decision:
    """Three commands, each of which leaves a line, then submits what it was shown last."""
    if view.turn < 3:
        return calls("shell", command=f"echo line-{view.turn} >> notes.txt; cat notes.txt")
    return Decision(submit={"done": True})


async def evidence_of(place: Arena, spec: EpisodeSpec) -> Evidence:
    return unpack(await place.objects.get((await place.outcome(spec)).trace)).evidence


async def assert_no_sandbox(place: Arena) -> None:
    assert await place.sandboxes.sandboxes() == ()


def said(evidence: Evidence) -> list[Any]:
    """What each call was shown: its output, or the code of its error."""
    shown = [one for turn in evidence.turns for one in turn.observations or ()]
    return [one.content["stdout"] if isinstance(one.content, dict) else one.code for one in shown]


WHOLE = ["start\nline-0\n", "start\nline-0\nline-1\n", "start\nline-0\nline-1\nline-2\n"]


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


async def _lose_in_command(place: Arena, spec: EpisodeSpec, turn: int) -> None:
    """Wait until the turn's command is in the sandbox, then lose the sandbox."""
    await until(lambda: any(op.endswith(f"/{turn}/0") for op in place.sandboxes.executions))
    place.sandboxes.lose(spec.episode_id)


async def sleeper(view: View) -> Decision:
    if view.turn == 0:
        return calls("shell", command="echo one > one.txt")
    if view.turn == 1:
        return calls("shell", command="sleep 1000")
    return Decision(submit={"done": True})


async def test_a_task_may_rather_end_than_go_on_in_a_restored_sandbox(client: Client, tmp_path: Path) -> None:
    async with arena(client, {"sleeper": sleeper}, tmp_path) as place, place.worker():
        spec = await place.plan(box_task(on_loss="environment_error"), "sleeper")
        handle = await place.start(spec)
        await _lose_in_command(place, spec, 1)
        await handle.result()
        result = await place.outcome(spec)
        assert (result.end, result.validity) == (End.ENVIRONMENT_ERROR, Validity.ENVIRONMENT)
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


async def test_lost_after_the_last_turn_says_nothing_about_the_policy(client: Client, tmp_path: Path) -> None:
    async with boxes(client, tmp_path) as (place, gated):
        gated.gates["seal"].shut()
        spec = await place.plan(box_task(), "writer")
        handle = await place.start(spec)
        await gated.gates["seal"].reached.wait()
        place.sandboxes.lose(spec.episode_id)
        gated.gates["seal"].open()
        await handle.result()
        result = await place.outcome(spec)
        assert (result.end, result.validity) == (End.ENVIRONMENT_ERROR, Validity.ENVIRONMENT)
        await assert_no_sandbox(place)


class GatedSandboxes:
    """A port of sandboxes with a gate before each of its methods, and one behind."""

    def __init__(self, sandboxes: Sandboxes) -> None:
        self._sandboxes = sandboxes
        self.gates: defaultdict[str, Gate] = defaultdict(Gate)

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._sandboxes, name)

        async def gated(*arguments: object) -> object:
            await self.gates[name].passing()
            answer = await method(*arguments)
            await self.gates[f"{name} answered"].passing()
            return answer

        return gated


@asynccontextmanager
async def boxes(client: Client, home: Path, **policies: Act) -> AsyncIterator[tuple[Arena, GatedSandboxes]]:
    async with arena(client, {"writer": writer, "sleeper": sleeper, **policies}, home) as place:
        gated = GatedSandboxes(place.sandboxes)
        async with place.worker(parts=replace(place.parts, sandboxes=gated)):
            yield place, gated


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
    async with boxes(client, tmp_path) as (place, gated):
        gated.gates["call"].failing = lambda: SandboxUnreachable("no reply")
        spec = await place.plan(box_task(), "writer")
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
