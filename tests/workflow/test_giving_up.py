"""An episode that waits long gives its sandbox up, and goes on in another one with the same files."""

import asyncio
from pathlib import Path

import pytest
from temporalio.client import Client

from schemas.decision import Call, Decision
from schemas.episode import End, Validity
from schemas.evidence import Evidence
from schemas.slice import SliceReport, SliceRequest
from schemas.status import SandboxHolding
from schemas.task import Limits, Task
from schemas.view import View
from tests.workflow.arena import QUICK, Handle, arena, calls, cause_of, until
from tests.workflow.boxes import assert_no_sandbox, box_task, boxes, evidence_of
from tiltyard.errors import SandboxUnreachable
from tiltyard.testing.gated_world import Gate
from tiltyard.trace import unpack

DAY = 86_400
AT_ONCE = QUICK.model_copy(update={"keep_sandbox_s": 0})
"""Whatever the episode waits for, it gives its sandbox up."""


def said(evidence: Evidence) -> list[object]:
    """What each call and question was answered."""
    shown = [one for turn in evidence.turns for one in turn.observations or ()]
    return [
        one.content.get("stdout") if isinstance(one.content, dict) else one.content or one.code for one in shown
    ]


def waiting_task(**plan: object) -> Task:
    return box_task(**plan).model_copy(update={"waiting": "real", "limits": Limits(wall_s=10 * DAY)})


class Waiter:
    """Leaves a line and a process behind, waits a day, and looks; ``notices`` are what it was told."""

    def __init__(self) -> None:
        self.notices: list[str] = []

    def __call__(self, view: View) -> Decision:
        self.notices.append(view.notice)
        plan = (
            calls("shell", command="echo line >> notes.txt; sleep 100000 &"),
            calls("wait", seconds=DAY),
            calls("shell", command="echo more >> notes.txt; cat notes.txt"),
        )
        return plan[view.turn] if view.turn < len(plan) else Decision(submit={"done": True})


async def test_a_long_wait_frees_the_slot_and_what_the_sandbox_said_is_evidence(
    client: Client, tmp_path: Path
) -> None:
    waiter = Waiter()
    async with boxes(client, tmp_path, waiter=waiter) as (place, gated):
        gated.gates["release answered"].shut()
        spec = await place.plan(waiting_task(), "waiter")
        handle = await place.start(spec, AT_ONCE)
        await gated.gates["release answered"].reached.wait()
        assert (await place.sandboxes.capacity()).free == 1000, "others can have its slot"
        gated.gates["release answered"].open()
        await place.ground.stop(spec.episode_id)
        await handle.result()
        evidence = await evidence_of(place, spec)
        assert evidence.sandbox is not None
        assert any(one.left for one in evidence.sandbox.facts.processes)
        assert [(one.path, one.change) for one in evidence.sandbox.changes] == [("notes.txt", "updated")]
        assert evidence.sandbox.facts.drain.found == 1


async def test_after_the_wait_it_has_its_files_and_is_told(skipping: Client, tmp_path: Path) -> None:
    waiter = Waiter()
    async with arena(skipping, {"waiter": waiter}, tmp_path) as place, place.worker():
        spec = await place.plan(waiting_task(), "waiter")
        handle = await place.start(spec)
        await handle.result()
        result = await place.outcome(spec)
        assert (result.end, result.validity) == (End.SUBMITTED, Validity.VALID), result.reason
        evidence = await evidence_of(place, spec)
        assert said(evidence)[-1] == "start\nline\nmore\n"
        assert ["put away" in notice for notice in waiter.notices] == [False, False, True, False]
        assert "after turn 0" in waiter.notices[2]
        assert "lost" not in waiter.notices[2]
        assert evidence.sandbox is not None
        assert evidence.sandbox.facts.incarnation == 2
        (first,) = evidence.sandbox.earlier
        assert (first.incarnation, first.drain.found, [one.ended for one in first.commands]) == (1, 1, [True])
        assert any("sleep" in " ".join(one.argv) for one in first.processes)
        assert set(place.sandboxes.executions.values()) == {1}
        await _assert_charged(skipping, handle, 10 * DAY, waited_s=DAY)
        await assert_no_sandbox(place)


async def _assert_charged(client: Client, handle: Handle, wall_s: float, waited_s: float) -> None:
    """What slices used and the wait itself are charged; what it took to give it up and to make it is not."""
    scheduled: dict[int, SliceRequest] = {}
    left_s = wall_s
    for event in (await handle.fetch_history()).events:
        asked = event.activity_task_scheduled_event_attributes
        done = event.activity_task_completed_event_attributes
        if asked.activity_type.name == "run_slice":
            (request,) = await client.data_converter.decode(asked.input.payloads, [SliceRequest])
            assert request.wall_left_s == left_s
            scheduled[event.event_id] = request
        if done.scheduled_event_id in scheduled:
            (report,) = await client.data_converter.decode(done.result.payloads, [SliceReport])
            left_s = wall_s - ((wall_s - left_s) + report.used_s)
            left_s = wall_s - ((wall_s - left_s) + waited_s) if report.reason == "wait" else left_s
    assert len(scheduled) > 1


async def test_the_digest_is_the_same_whether_it_was_given_up_or_kept(skipping: Client, tmp_path: Path) -> None:
    async with arena(skipping, {"waiter": Waiter()}, tmp_path) as place, place.worker():
        kept = await place.run(waiting_task(), "waiter", QUICK.model_copy(update={"keep_sandbox_s": 2 * DAY}))
        given_up = await place.run(waiting_task(), "waiter")
        assert kept.digests == given_up.digests
        assert kept.digests.trace
        assert [
            len(evidence.sandbox.earlier)
            for one in (kept, given_up)
            if (evidence := unpack(await place.objects.get(one.trace)).evidence).sandbox
        ] == [0, 1]


@pytest.mark.parametrize(
    "case", ["the task keeps it", "the wait is short", "a command of the turn is not told yet"]
)
async def test_it_is_kept(skipping: Client, tmp_path: Path, case: str) -> None:
    """A command that ran in the turn that waits would run again elsewhere: nobody else knows its outcome."""

    def waits(view: View) -> Decision:
        before = (Call(tool="shell", arguments={"command": "echo x >> notes.txt"}),) * (
            case.startswith("a command")
        )
        if view.turn == 0:
            return Decision(
                calls=(*before, Call(tool="wait", arguments={"seconds": 30 if "short" in case else DAY}))
            )
        return Decision(submit={"done": True})

    task = waiting_task(**({"while_waiting": "keep"} if case.startswith("the task") else {}))
    async with arena(skipping, {"waits": waits}, tmp_path) as place, place.worker():
        spec = await place.plan(task, "waits")
        await (await place.start(spec)).result()
        evidence = await evidence_of(place, spec)
        assert evidence.sandbox is not None
        assert (evidence.sandbox.facts.incarnation, evidence.sandbox.earlier) == (1, ())
        assert set(place.sandboxes.executions.values()) <= {1}


def asker(view: View) -> Decision:
    plan = (
        calls("shell", command="echo asked >> notes.txt"),
        Decision(ask="May I?"),
        calls("shell", command="cat notes.txt"),
    )
    return plan[view.turn] if view.turn < len(plan) else Decision(submit={"done": True})


async def _is_given_up(handle: Handle) -> bool:
    return await _state_is(handle, "given_up")


async def _state_is(handle: Handle, state: str) -> bool:
    held: SandboxHolding = await handle.query("sandbox", result_type=SandboxHolding)
    return held.place.state == state and not held.changing


async def test_a_question_that_waits_long_gives_it_up_and_the_answer_arrives(
    client: Client, tmp_path: Path
) -> None:
    async with arena(client, {"asker": asker}, tmp_path) as place, place.worker():
        spec = await place.plan(box_task(), "asker")
        handle = await place.start(spec, AT_ONCE)
        await until(lambda: _is_given_up(handle))
        await assert_no_sandbox(place)
        await place.ground.answer(spec.episode_id, "yes")
        await handle.result()
        evidence = await evidence_of(place, spec)
        assert said(evidence)[-2:] == ["yes", "start\nasked\n"]
        assert (await place.outcome(spec)).end is End.SUBMITTED


async def test_a_pause_gives_it_up_and_another_run_of_the_chain_brings_it_back(
    client: Client, tmp_path: Path
) -> None:
    """Again and again: what each has said is in the trace."""
    tuning = AT_ONCE.model_copy(update={"slice_turns": 1, "slices_per_run": 1})
    gate = Gate()

    async def slow(view: View) -> Decision:
        await gate.passing()
        return (
            calls("shell", command=f"echo {view.turn} >> notes.txt")
            if view.turn < 2
            else Decision(submit={"done": True})
        )

    async with arena(client, {"slow": slow}, tmp_path) as place, place.worker():
        gate.shut()
        spec = await place.plan(box_task(), "slow")
        handle = client.get_workflow_handle((await place.start(spec, tuning)).id)
        for _ in range(2):
            await gate.reached.wait()
            await place.ground.pause(spec.episode_id)
            gate.open()
            await until(lambda: _is_given_up(handle))
            gate.shut()
            gate.reached.clear()
            await place.ground.resume(spec.episode_id)
        await gate.reached.wait()
        gate.open()
        await handle.result()
        evidence = await evidence_of(place, spec)
        assert evidence.sandbox is not None
        assert [one.incarnation for one in (*evidence.sandbox.earlier, evidence.sandbox.facts)] == [1, 2, 3]
        assert (await place.outcome(spec)).end is End.SUBMITTED
        await assert_no_sandbox(place)


@pytest.mark.parametrize("while_waiting", ["give_up", "keep"])
async def test_a_pause_before_the_first_turn_gives_it_up_and_the_policy_need_not_know(
    client: Client, tmp_path: Path, while_waiting: str
) -> None:
    """Until it is asked, it has seen no sandbox, so it is told of none that was put away."""
    waiter = Waiter()
    async with boxes(client, tmp_path, waiter=waiter) as (place, gated):
        gated.gates["provision"].shut()
        spec = await place.plan(box_task(while_waiting=while_waiting), "waiter")
        handle = await place.start(spec, AT_ONCE)
        await gated.gates["provision"].reached.wait()
        await place.ground.pause(spec.episode_id)
        gated.gates["provision"].open()
        await until(lambda: _state_is(handle, "given_up" if while_waiting == "give_up" else "there"))
        await place.ground.resume(spec.episode_id)
        await handle.result()
        evidence = await evidence_of(place, spec)
        assert evidence.sandbox is not None
        assert len(evidence.sandbox.earlier) == (while_waiting == "give_up")
        assert said(evidence)[-1] == "start\nline\nmore\n"
        assert not any("put away" in notice for notice in waiter.notices)


async def test_another_run_of_the_chain_knows_before_its_first_slice_that_it_may_be_given_up(
    client: Client, tmp_path: Path
) -> None:
    tuning = AT_ONCE.model_copy(update={"slice_turns": 1, "slices_per_run": 1})
    gate = Gate()

    async def slow(view: View) -> Decision:
        if view.turn:
            await gate.passing()
        return calls("shell", command="true") if view.turn < 2 else Decision(submit={"done": True})

    async with arena(client, {"slow": slow}, tmp_path) as place, place.worker():
        gate.shut()
        spec = await place.plan(box_task(), "slow")
        first = await place.start(spec, tuning)
        await gate.reached.wait()
        handle = client.get_workflow_handle(first.id)
        assert (await handle.describe()).run_id != first.first_execution_run_id
        held: SandboxHolding = await handle.query("sandbox", result_type=SandboxHolding)
        assert held.place.may_give_up
        gate.open()
        await handle.result()


async def test_an_episode_that_is_terminated_without_a_sandbox_keeps_what_the_earlier_one_said(
    client: Client, tmp_path: Path
) -> None:
    async with arena(client, {"asker": asker}, tmp_path) as place, place.worker():
        spec = await place.plan(box_task(), "asker")
        handle = await place.start(spec, AT_ONCE)
        await until(lambda: _is_given_up(handle))
        await handle.terminate()
        assert (await place.clean_up()).reclaimed == (spec.episode_id,)
        evidence = await evidence_of(place, spec)
        assert evidence.sandbox is not None
        assert [one.started for one in evidence.sandbox.facts.commands] == [True]
        assert [one.path for one in evidence.sandbox.changes] == ["notes.txt"]


@pytest.mark.parametrize("on_loss", ["restore", "environment_error"])
async def test_one_that_cannot_be_given_up_is_lost(client: Client, tmp_path: Path, on_loss: str) -> None:
    """It was sealed, and then went away: the policy is told of a loss, and the answer is not forgotten."""
    async with boxes(client, tmp_path, asker=asker) as (place, gated):
        gated.gates["drain"].failing = lambda: SandboxUnreachable("the host does not answer")
        spec = await place.plan(box_task(on_loss=on_loss), "asker")
        handle = await place.start(spec, AT_ONCE.model_copy(update={"patience_s": 1}))
        await gated.gates["drain"].reached.wait()
        place.sandboxes.lose(spec.episode_id)
        gated.gates["drain"].failing = None
        await until(lambda: _is_lost(handle))
        await place.ground.answer(spec.episode_id, "yes")
        await handle.result()
        result = await place.outcome(spec)
        if on_loss == "environment_error":
            assert result.end is End.ENVIRONMENT_ERROR
        else:
            assert result.end is End.SUBMITTED
            assert said(await evidence_of(place, spec))[-2:] == ["yes", "start\nasked\n"]
        await assert_no_sandbox(place)


async def test_a_wait_in_the_last_turn_ends_as_it_would_in_a_sandbox_that_was_kept(
    skipping: Client, tmp_path: Path
) -> None:
    """Nothing was lost: that the policy could not be told of another sandbox is no fault of anybody."""

    def waits(view: View) -> Decision:
        return calls("wait", seconds=DAY)

    async with arena(skipping, {"waits": waits}, tmp_path) as place, place.worker():
        task = waiting_task().model_copy(update={"limits": Limits(wall_s=10 * DAY, turns=1)})
        result = await place.run(task, "waits")
        assert (result.end, result.validity, result.reason) == (End.BUDGET_EXHAUSTED, Validity.VALID, "turns")


async def _is_lost(handle: Handle) -> bool:
    held: SandboxHolding = await handle.query("sandbox", result_type=SandboxHolding)
    return held.place.state == "lost"


@pytest.mark.parametrize("step", ["seal", "drain", "facts", "release", "provision"])
async def test_cancelled_while_it_is_given_up_or_brought_back(client: Client, tmp_path: Path, step: str) -> None:
    def waits(view: View) -> Decision:
        if view.turn != 1:
            return calls("shell", command="true")
        gate.shut()
        gate.reached.clear()
        return calls("wait", seconds=1)

    async with boxes(client, tmp_path, waits=waits) as (place, gated):
        gate = gated.gates[step]
        spec = await place.plan(waiting_task(), "waits")
        handle = await place.start(spec, AT_ONCE)
        await until(lambda: place.policies.acted.get(spec.episode_id, 0) >= 2)
        await gate.reached.wait()
        await handle.cancel()
        await asyncio.sleep(0.2)
        gate.open()
        await cause_of(handle)
        assert (await place.outcome(spec)).end is End.CANCELLED
        await place.assert_nothing_left(spec)
        await assert_no_sandbox(place)
