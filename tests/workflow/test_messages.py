"""Messages to a running episode: stop, pause, resume, answer; and its status."""

import asyncio
from collections.abc import Awaitable
from pathlib import Path

import pytest
from temporalio.client import Client

from schemas.decision import Decision
from schemas.episode import End
from schemas.start import Tuning
from schemas.task import Limits
from schemas.view import View
from tests.workflow.arena import Arena, arena, calls, honest, tally_task, until
from tests.workflow.noted_slices import NotedSlices
from tiltyard.errors import BadInput, WorldUnreachable
from tiltyard.trace import unpack


async def deliberate(view: View) -> Decision:
    """Adds again and again, a tenth of a second apart."""
    await asyncio.sleep(0.1)
    return calls("add", name="apples", amount=view.turn + 1)


def asking(view: View) -> Decision:
    if view.turn == 0:
        return Decision(ask="How many apples?")
    observation = view.transcript[0].observations[0]
    return Decision(submit={"status": observation.status, "heard": observation.content})


async def heard(place: Arena, trace: str) -> object:
    return unpack(await place.objects.get(trace)).evidence.turns[-1].decision.submit


async def test_stop_ends_it_as_cancelled_with_its_effects_accounted_for(client: Client, tmp_path: Path) -> None:
    async with arena(client, {"slow": deliberate}, tmp_path) as place, place.worker():
        spec = await place.plan(tally_task(), "slow")
        handle = await place.start(spec)
        place.world.gates["answering"].reached.clear()
        await place.world.gates["answering"].reached.wait()
        await place.ground.stop(spec.episode_id, "enough")
        await handle.result()
        result = await place.outcome(spec)
        assert (result.end, result.reason, result.validity) == (End.CANCELLED, "enough", "missing")
        assert result.counts.effects >= 1
        await place.assert_nothing_left(spec)


async def test_pause_holds_at_a_turn_boundary_and_resume_goes_on(client: Client, tmp_path: Path) -> None:
    async with arena(client, {"slow": deliberate}, tmp_path) as place, place.worker():
        spec = await place.plan(tally_task(limits=Limits(turns=12)), "slow")
        handle = await place.start(spec)
        await place.ground.pause(spec.episode_id)
        await until(lambda: _phase_is(place, spec.episode_id, "paused"))
        turns = (await place.ground.status(spec.episode_id)).turns
        with pytest.raises(BadInput, match="paused already"):
            await place.ground.pause(spec.episode_id)
        assert (await place.ground.status(spec.episode_id)).turns == turns
        await place.ground.resume(spec.episode_id)
        await handle.result()
        assert (await place.outcome(spec)).counts.turns == 12


async def _phase_is(place: Arena, episode_id: str, phase: str) -> bool:
    return (await place.ground.status(episode_id)).phase == phase


async def test_a_question_waits_for_its_answer(client: Client, tmp_path: Path) -> None:
    async with arena(client, {"asking": asking}, tmp_path) as place, place.worker():
        spec = await place.plan(tally_task(), "asking")
        handle = await place.start(spec)
        await until(lambda: _phase_is(place, spec.episode_id, "question"))
        assert (await place.ground.status(spec.episode_id)).question == "How many apples?"
        with pytest.raises(BadInput, match="not paused"):
            await place.ground.resume(spec.episode_id)
        await place.ground.answer(spec.episode_id, "seven")
        await handle.result()
        assert await heard(place, (await place.outcome(spec)).trace) == {"status": "ok", "heard": "seven"}


async def test_a_refusal_is_in_plain_words_and_says_where_to_look(client: Client, tmp_path: Path) -> None:
    async with arena(client, {"asking": asking, "slow": deliberate}, tmp_path) as place, place.worker():
        asks, slow = await place.plan(tally_task(), "asking"), await place.plan(tally_task(), "slow")
        handle, other = await place.start(asks), await place.start(slow)
        await until(lambda: _phase_is(place, asks.episode_id, "question"))
        ground, mine = place.ground, asks.episode_id
        await ground.pause(slow.episode_id)
        await _refused(ground.resume(mine), mine, "the episode is not paused")
        await _refused(ground.answer(slow.episode_id, "yes"), slow.episode_id, "the episode asks nothing")
        await _refused(ground.pause(slow.episode_id), slow.episode_id, "the episode is paused already")
        await ground.answer(mine, "seven")
        await ground.stop(slow.episode_id)
        await asyncio.gather(handle.result(), other.result())
        await _refused(ground.answer(mine, "eight"), mine, "the episode has ended")
        await _refused(ground.stop(mine), mine, "the episode has ended")


async def _refused(message: Awaitable[None], episode_id: str, why: str) -> None:
    with pytest.raises(BadInput) as caught:
        await message
    refusal = caught.value
    assert (refusal.field, refusal.message) == (episode_id, why)
    assert refusal.fix == f"`tiltyard episodes show {episode_id}` says how it stands"


async def test_an_answer_outlives_a_run_that_continues_as_new(client: Client, tmp_path: Path) -> None:
    async with arena(client, {"asking": asking}, tmp_path) as place, place.worker():
        spec = await place.plan(tally_task(), "asking")
        handle = await place.start(spec, Tuning(slice_turns=1, slices_per_run=1, heartbeat_s=2))
        await until(lambda: _phase_is(place, spec.episode_id, "question"))
        await place.ground.answer(spec.episode_id, "seven")
        await client.get_workflow_handle(handle.id).result()
        assert await heard(place, (await place.outcome(spec)).trace) == {"status": "ok", "heard": "seven"}


async def test_a_pause_is_not_in_the_wall_time_budget(client: Client, tmp_path: Path) -> None:
    asked = asyncio.Event()

    async def waiting(view: View) -> Decision:
        await asked.wait()
        return calls("add", name="apples", amount=view.turn + 1)

    noted = NotedSlices()
    async with arena(client, {"waiting": waiting}, tmp_path) as place, noted.worker(place):
        spec = await place.plan(tally_task(limits=Limits(turns=3, wall_s=100)), "waiting")
        handle = await place.start(spec, Tuning(slice_turns=1, heartbeat_s=2))
        await place.ground.pause(spec.episode_id)
        asked.set()
        await until(lambda: _phase_is(place, spec.episode_id, "paused"))
        await place.ground.resume(spec.episode_id)
        await handle.result()
        assert (await place.outcome(spec)).reason == "turns"
        assert len(noted.slices) > 1, "nothing came after the pause"
        noted.assert_charged(wall_s=100)


async def test_a_question_that_nobody_answers_goes_on_in_time(client: Client, tmp_path: Path) -> None:
    async with arena(client, {"asking": asking}, tmp_path) as place, place.worker():
        result = await place.run(tally_task(limits=Limits(answer_s=0.2)), "asking")
        assert await heard(place, result.trace) == {"status": "timeout", "heard": None}


async def test_a_simulated_person_answers_at_once(client: Client, tmp_path: Path) -> None:
    async with arena(client, {"asking": asking}, tmp_path) as place, place.worker():
        result = await place.run(tally_task(answers=("three",)), "asking")
        assert await heard(place, result.trace) == {"status": "ok", "heard": "three"}


async def test_messages_to_what_has_ended_or_never_was_are_refused(client: Client, tmp_path: Path) -> None:
    async with arena(client, {"honest": honest}, tmp_path) as place, place.worker():
        spec = await place.plan(tally_task(), "honest")
        await (await place.start(spec)).result()
        with pytest.raises(BadInput, match="has ended"):
            await place.ground.stop(spec.episode_id)
        with pytest.raises(BadInput, match="no such episode"):
            await place.ground.pause("e-nothing")
        assert (await place.ground.status(spec.episode_id)).end is End.SUBMITTED


async def test_a_step_that_is_tried_again_says_what_it_fails_at(client: Client, tmp_path: Path) -> None:
    async with arena(client, {"honest": honest}, tmp_path) as place, place.worker():
        place.world.gates["lease"].failing = lambda: WorldUnreachable("the worlds are away")
        spec = await place.plan(tally_task(), "honest")
        handle = await place.start(spec)

        async def fails() -> bool:
            found = (await place.ground.status(spec.episode_id)).failing
            return any(one.attempt >= 2 for one in found)

        await until(fails)
        status = await place.ground.status(spec.episode_id)
        assert [(one.step, one.why) for one in status.failing] == [("lease", "the worlds are away")]
        assert str(status.failing[0]).startswith("lease, attempt ")
        place.world.gates["lease"].failing = None
        await handle.result()
        assert (await place.ground.status(spec.episode_id)).failing == ()
