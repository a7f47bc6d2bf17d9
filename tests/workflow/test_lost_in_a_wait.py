"""A sandbox that is lost while its episode waits: what was waited for is over, and is not waited for again."""

from datetime import timedelta
from pathlib import Path

from temporalio.client import Client

from schemas.decision import Call, Decision
from schemas.episode import End
from schemas.task import Limits
from schemas.view import View
from tests.workflow.arena import Handle, arena, until
from tests.workflow.boxes import box_task, boxes, evidence_of
from tiltyard.errors import SandboxLost
from workflows.episode import EpisodeWorkflow

WAIT_S = 2


async def _phase_is(handle: Handle, phase: str) -> bool:
    return (await handle.query(EpisodeWorkflow.status)).phase == phase


async def _waits(handle: Handle) -> int:
    """Timers of that length."""
    timers = [event.timer_started_event_attributes for event in (await handle.fetch_history()).events]
    return sum(one.start_to_fire_timeout.ToTimedelta() == timedelta(seconds=WAIT_S) for one in timers)


async def test_a_wait_is_over_once(client: Client, tmp_path: Path) -> None:
    def waits(view: View) -> Decision:
        if view.turn:
            return Decision(submit={"done": True})
        wait = Call(tool="wait", arguments={"seconds": WAIT_S})
        return Decision(calls=(wait, Call(tool="shell", arguments={"command": "true"})))

    async with arena(client, {"waits": waits}, tmp_path) as place, place.worker():
        spec = await place.plan(box_task().model_copy(update={"waiting": "real"}), "waits")
        handle = await place.start(spec)
        await until(lambda: _phase_is(handle, "waiting"))
        place.sandboxes.lose(spec.episode_id)
        await handle.result()
        assert (await place.outcome(spec)).end is End.SUBMITTED
        assert await _waits(handle) == 1


async def test_a_person_is_asked_once(client: Client, tmp_path: Path) -> None:
    def asker(view: View) -> Decision:
        return Decision(submit={"done": True}) if view.turn else Decision(ask="May I?")

    async with boxes(client, tmp_path, asker=asker) as (place, gated):
        connect = gated.gates["connect"]
        task = box_task(exposes={"tally": ("add",)}).model_copy(update={"limits": Limits(answer_s=20)})
        spec = await place.plan(task, "asker")
        handle = await place.start(spec)
        await until(lambda: _phase_is(handle, "question"))

        def dies() -> Exception:
            connect.failing = None
            place.sandboxes.lose(spec.episode_id)
            return SandboxLost("its machine is gone")

        connect.failing = dies
        await place.ground.answer(spec.episode_id, "yes")
        await handle.result()
        evidence = await evidence_of(place, spec)
        assert evidence.turns[0].observations is not None
        assert [one.content for one in evidence.turns[0].observations] == ["yes"]
        assert evidence.sandbox is not None
        assert evidence.sandbox.facts.incarnation == 2
