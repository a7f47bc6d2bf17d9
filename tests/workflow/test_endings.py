"""Every way an episode can end leaves nothing behind (I5) and one recorded outcome (I6)."""

import asyncio
import gc
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import pytest
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client
from temporalio.exceptions import CancelledError

from schemas.decision import Decision
from schemas.episode import End, Validity
from schemas.slice import LeaseRef
from schemas.start import Tuning
from schemas.task import Limits
from schemas.view import View
from tests.workflow.arena import (
    Handle,
    arena,
    calls,
    cause_of,
    honest,
    lease_request,
    lingering,
    started,
    tally_task,
    until,
)
from tests.workflow.broken_episodes import BrokenEpisode
from tests.workflow.noted_slices import NotedSlices
from tiltyard.episode.known import KnownJournals
from tiltyard.errors import BadInput, EnvironmentFailed, NotPristine, WorldUnreachable
from workers.assembly import WORKFLOWS


async def test_cancelled_in_the_turns(client: Client, tmp_path: Path) -> None:
    async with arena(client, {"lingering": lingering}, tmp_path) as place, place.worker():
        spec, handle = await started(place)
        await handle.cancel()
        assert isinstance(await cause_of(handle), CancelledError)
        result = await place.outcome(spec)
        assert (result.end, result.validity, result.counts.effects) == (End.CANCELLED, Validity.MISSING, 1)
        assert (result.drain.jobs_found, result.drain.jobs_cancelled) == (1, 1)
        await place.assert_nothing_left(spec)


def known_of(episode_id: str) -> int:
    """How many workers in this process know a journal of the episode."""
    kept = (each._kept for each in gc.get_objects() if isinstance(each, KnownJournals))
    return sum(one == episode_id for keys in kept for one, _ in keys)


async def test_cancelled_between_two_slices(client: Client, tmp_path: Path) -> None:
    """What the last slice left to the next one in the memory of its worker goes with the episode."""
    asking = {"asking": lambda view: Decision(ask="May I?")}
    async with arena(client, asking, tmp_path) as place, place.worker():
        spec = await place.plan(tally_task(), "asking")
        handle = await place.start(spec)

        async def asks() -> bool:
            return bool((await place.ground.status(spec.episode_id)).question)

        await until(asks)
        assert known_of(spec.episode_id) == 1
        await handle.cancel()
        assert isinstance(await cause_of(handle), CancelledError)
        assert known_of(spec.episode_id) == 0
        await place.assert_nothing_left(spec)


async def test_cancelled_while_the_lease_is_being_taken(client: Client, tmp_path: Path) -> None:
    """The cancellation races the creation; the lease is awaited, then given back (inspect_k8s_sandbox 75)."""
    async with arena(client, {"honest": honest}, tmp_path) as place, place.worker():
        place.world.gates["lease"].shut()
        spec = await place.plan(tally_task(), "honest")
        handle = await place.start(spec)
        await place.world.gates["lease"].reached.wait()
        await handle.cancel()
        await asyncio.sleep(0.3)
        place.world.gates["lease"].open()
        assert isinstance(await cause_of(handle), CancelledError)
        assert (await place.outcome(spec)).end is End.CANCELLED
        await place.assert_nothing_left(spec)


async def test_cancelled_before_its_first_task(client: Client, tmp_path: Path) -> None:
    async with arena(client, {"honest": honest}, tmp_path) as place:
        spec = await place.plan(tally_task(), "honest")
        handle = await place.start(spec)
        await handle.cancel()
        async with place.worker():
            assert isinstance(await cause_of(handle), CancelledError)
            assert (await place.outcome(spec)).end is End.CANCELLED
            assert not place.engine.leases()


@pytest.mark.parametrize("step", ["seal", "drain", "facts", "recycle"])
async def test_cancelled_first_and_again_during_cleanup(client: Client, tmp_path: Path, step: str) -> None:
    async with arena(client, {"honest": honest}, tmp_path) as place, place.worker():
        gate = place.world.gates[step]
        gate.shut()
        spec = await place.plan(tally_task(), "honest")
        handle = await place.start(spec)
        await gate.reached.wait()
        await handle.cancel()
        await asyncio.sleep(0.2)
        await handle.cancel()
        await asyncio.sleep(0.2)
        gate.open()
        assert isinstance(await cause_of(handle), CancelledError)
        assert (await place.outcome(spec)).end is End.SUBMITTED
        await place.assert_nothing_left(spec)


async def test_cancelled_in_the_turns_and_again_during_cleanup(client: Client, tmp_path: Path) -> None:
    async with arena(client, {"lingering": lingering}, tmp_path) as place, place.worker():
        gate = place.world.gates["drain"]
        gate.shut()
        spec, handle = await started(place)
        await handle.cancel()
        await gate.reached.wait()
        await handle.cancel()
        await asyncio.sleep(0.2)
        gate.open()
        assert isinstance(await cause_of(handle), CancelledError)
        assert (await place.outcome(spec)).end is End.CANCELLED
        await place.assert_nothing_left(spec)


async def test_a_plain_exception_in_the_workflow_is_a_recorded_outcome(client: Client, tmp_path: Path) -> None:
    async with arena(client, {"honest": honest}, tmp_path) as place:
        async with place.worker((BrokenEpisode, *WORKFLOWS[1:])):
            spec = await place.plan(tally_task(), "honest")
            await (await place.start(spec)).result()
        result = await place.outcome(spec)
        assert (result.end, result.validity) == (End.ENVIRONMENT_ERROR, Validity.ENVIRONMENT)
        assert "a bug of the workflow" in result.reason
        await place.assert_nothing_left(spec)


async def test_a_world_out_of_reach_past_the_deadline_is_an_environment_error(
    client: Client, tmp_path: Path
) -> None:
    async with arena(client, {"honest": honest}, tmp_path) as place:
        place.settings = place.settings.model_copy(update={"call_deadline": timedelta(seconds=0.3)})
        place.world.gates["call"].failing = lambda: WorldUnreachable("no reply from the world")
        async with place.worker():
            spec = await place.plan(tally_task(), "honest")
            await (await place.start(spec)).result()
        result = await place.outcome(spec)
        assert (result.end, result.validity) == (End.ENVIRONMENT_ERROR, Validity.ENVIRONMENT)
        await place.assert_nothing_left(spec)


async def test_a_worker_that_stops_leaves_the_episode_to_the_next_one(client: Client, tmp_path: Path) -> None:
    release = asyncio.Event()

    async def slow(view: View) -> Decision:
        if view.turn == 1:
            await release.wait()
        return honest(view)

    async with arena(client, {"slow": slow}, tmp_path) as place:
        async with place.worker():
            spec = await place.plan(tally_task(), "slow")
            handle = await place.start(spec)
            await until(lambda: place.policies.acted.get(spec.episode_id, 0) >= 2)
        release.set()
        async with place.worker():
            await handle.result()
        assert (await place.outcome(spec)).counts.effects == 1
        await place.assert_nothing_left(spec)


async def test_a_policy_that_cannot_be_opened_is_a_policy_error(client: Client, tmp_path: Path) -> None:
    async with arena(client, {}, tmp_path) as place, place.worker():
        spec = await place.plan(tally_task(), "nobody")
        await (await place.start(spec)).result()
        assert (await place.outcome(spec)).end is End.POLICY_ERROR
        await place.assert_nothing_left(spec)


async def test_a_cancellation_is_kept_when_the_step_that_it_waits_for_fails(client: Client, tmp_path: Path) -> None:
    async with arena(client, {"honest": honest}, tmp_path) as place, place.worker():
        gate = place.world.gates["lease"]
        gate.shut()
        gate.failing = lambda: BadInput("no such template", field="template")
        spec = await place.plan(tally_task(), "honest")
        handle = await place.start(spec)
        await gate.reached.wait()
        await handle.cancel()
        await asyncio.sleep(0.3)
        gate.open()
        assert isinstance(await cause_of(handle), CancelledError)
        assert (await place.outcome(spec)).end is End.CANCELLED


async def test_a_policy_that_swallows_its_cancellation_ends_all_the_same(client: Client, tmp_path: Path) -> None:
    async def deaf(view: View) -> Decision:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(0.2)
        return calls("add", name="apples", amount=view.turn + 1)

    async with arena(client, {"deaf": deaf}, tmp_path) as place, place.worker():
        spec = await place.plan(tally_task(), "deaf")
        handle = await place.start(spec, Tuning(heartbeat_s=1, slice_s=0.5))
        await until(lambda: place.policies.acted.get(spec.episode_id, 0) >= 2)
        await handle.cancel()
        assert isinstance(await cause_of(handle), CancelledError)
        assert (await place.outcome(spec)).end is End.CANCELLED
        await place.assert_nothing_left(spec)


async def test_a_worker_that_goes_down_with_the_cancellation_makes_no_failure_of_it(
    client: Client, tmp_path: Path
) -> None:
    """What is to be cancelled is not tried again: the workflow is told of a failure, and of nothing else."""

    async def going_down(view: View) -> Decision:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            raise EnvironmentFailed("the machine goes down") from None
        raise AssertionError("it is cancelled before")

    async with arena(client, {"going_down": going_down}, tmp_path) as place, place.worker():
        spec = await place.plan(tally_task(), "going_down")
        handle = await place.start(spec, Tuning(heartbeat_s=1, slice_s=0.5))
        await until(lambda: place.policies.acted.get(spec.episode_id, 0) >= 1)
        await handle.cancel()
        assert isinstance(await cause_of(handle), CancelledError)
        events = [event.event_type async for event in handle.fetch_history_events()]
        assert EventType.EVENT_TYPE_ACTIVITY_TASK_FAILED in events
        result = await place.outcome(spec)
        assert (result.end, result.validity) == (End.CANCELLED, Validity.MISSING)
        await place.assert_nothing_left(spec)


async def test_an_outage_of_the_worker_is_not_charged_to_the_policy(client: Client, tmp_path: Path) -> None:
    """Nor does it end the slice, which may be out for as long as the steps around the turns."""

    def adding(view: View) -> Decision:
        return calls("add", name="apples", amount=view.turn + 1)

    noted, tuning = NotedSlices(), Tuning(heartbeat_s=1, slice_s=0.5, slice_turns=1, patience_s=60)
    async with arena(client, {"adding": adding}, tmp_path) as place:
        spec = await place.plan(tally_task(limits=Limits(turns=4, wall_s=100)), "adding")
        place.world.gates["call"].shut()
        async with noted.worker(place):
            handle = await place.start(spec, tuning)
            await place.world.gates["call"].reached.wait()
        assert noted.slices == [], "the outage was not in the middle of a slice"
        place.world.gates["call"].open()
        async with noted.worker(place):
            await handle.result()
        assert (await place.outcome(spec)).reason == "turns"
        assert len(noted.slices) > 1, "nothing came after the outage"
        noted.assert_charged(wall_s=100)
        assert await _may_be_open(handle, "run_slice") == {timedelta(seconds=100 + 60)}


async def _may_be_open(handle: Handle, activity: str) -> set[timedelta]:
    """How long Temporal was told that the activity may take with all its attempts."""
    told = [event.activity_task_scheduled_event_attributes for event in (await handle.fetch_history()).events]
    return {one.schedule_to_close_timeout.ToTimedelta() for one in told if one.activity_type.name == activity}


async def test_a_namespace_that_cannot_be_closed_is_quarantined_and_the_outcome_recorded(
    client: Client, tmp_path: Path
) -> None:
    async with arena(client, {"honest": honest}, tmp_path) as place, place.worker():
        place.world.gates["drain"].failing = lambda: NotPristine("the template has changed")
        spec = await place.plan(tally_task(), "honest")
        await (await place.start(spec)).result()
        result = await place.outcome(spec)
        assert (result.end, result.validity) == (End.SUBMITTED, Validity.ENVIRONMENT)
        assert not place.engine.leases()
        (lease,) = [place.engine.lease(lease_request("next"))]
        assert lease.namespace != await namespace_of(client, handle_id=f"episode/{spec.episode_id}")


async def namespace_of(client: Client, handle_id: str) -> str:
    """The namespace that the episode had leased, from its history."""
    history = await client.get_workflow_handle(handle_id).fetch_history()
    done = [event.activity_task_completed_event_attributes for event in history.events]
    payload = next(one for one in done if one.result.payloads).result.payloads[0]
    return LeaseRef.model_validate_json(payload.data).namespace
