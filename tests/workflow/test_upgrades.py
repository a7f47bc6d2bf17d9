"""An upgrade of the workflows' code in the middle of episodes: each ends on the version that it began with, while
that has a worker; then those that can go on with the new one do, and the others are named, and ended in time."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import pytest
from temporalio.client import Client

from schemas.decision import Decision
from schemas.episode import End, EpisodeSpec, Validity
from schemas.start import Tuning
from schemas.view import View
from tests.workflow.arena import QUICK, Arena, Handle, arena, calls, honest, lease_request, tally_task, until
from tests.workflow.broken_episodes import (
    LaterEpisode,
    PatchedEpisode,
    UnpinnedEpisode,
    UnpinnedLaterEpisode,
)
from tests.workflow.resets import runs_of
from tests.workflow.versioned import SOON, code, worker
from tiltyard.errors import EnvironmentFailed
from workers.chains import pinned_build
from workers.ground import Ground
from workers.passes import janitor_of, last_pass
from workers.worker import keep_janitor
from workflows.episode import EpisodeWorkflow

ONE_TURN = QUICK.model_copy(update={"slice_turns": 1})


LATER, PATCHED = code(LaterEpisode), code(PatchedEpisode)


class Held:
    """A policy that adds once, and then thinks until it may go on."""

    def __init__(self) -> None:
        self.may_go_on = asyncio.Event()

    async def __call__(self, view: View) -> Decision:
        if view.turn:
            await self.may_go_on.wait()
        return honest(view)


async def begun(place: Arena, number: int, tuning: Tuning = ONE_TURN) -> list[tuple[EpisodeSpec, Handle]]:
    """Episodes in the middle of their second turn."""
    specs = [await place.plan(tally_task(), "held") for _ in range(number)]
    handles = [await place.start(spec, tuning) for spec in specs]
    await until(lambda: all(place.policies.acted.get(spec.episode_id, 0) >= 2 for spec in specs))
    return list(zip(specs, handles, strict=True))


async def version(handle: Handle) -> str:
    """Where its last task was done, or its next one will be."""
    info = (await handle.describe()).raw_description.workflow_execution_info
    return pinned_build(info.versioning_info)


async def assert_submitted(place: Arena, episodes: Sequence[tuple[EpisodeSpec, Handle]]) -> None:
    for spec, handle in episodes:
        await handle.result()
        result = await place.outcome(spec)
        assert (result.end, result.validity, result.counts.effects) == (End.SUBMITTED, Validity.VALID, 1)
        await place.assert_nothing_left(spec)


async def test_fifty_episodes_end_on_their_own_version(client: Client, tmp_path: Path) -> None:
    held = Held()
    async with arena(client, {"held": held}, tmp_path) as place, worker(place, "old"):
        before = await begun(place, 50)
        async with worker(place, "new", LATER):
            after = await begun(place, 5)
            assert (await place.clean_up()).moved == (), "nothing is moved while its version has a worker"
            held.may_go_on.set()
            await assert_submitted(place, [*before, *after])
        assert {await version(handle) for _, handle in before} == {"old"}
        assert {await version(handle) for _, handle in after} == {"new"}
        digests = {(await place.outcome(spec)).digests.trace for spec, _ in (*before, *after)}
        assert len(digests) == 1


async def test_without_pinning_the_same_upgrade_breaks_them(client: Client, tmp_path: Path) -> None:
    held = Held()
    async with arena(client, {"held": held}, tmp_path) as place:
        async with worker(place, "old", code(UnpinnedEpisode)):
            broken = await begun(place, 3)
        async with worker(place, "new", code(UnpinnedLaterEpisode)):
            held.may_go_on.set()
            for _, handle in broken:
                await until(lambda handle=handle: _fails(handle))
            assert len((await place.clean_up(stuck_attempts=2)).terminated) == 3


async def _fails(handle: Handle) -> bool:
    found = await handle.describe()
    return found.raw_description.pending_workflow_task.attempt > 2  # of which two have failed


async def test_those_that_can_go_on_with_the_new_version_do_when_the_old_worker_is_gone(
    client: Client, tmp_path: Path
) -> None:
    held = Held()
    async with arena(client, {"held": held}, tmp_path) as place:
        async with worker(place, "old"):
            episodes = await begun(place, 5)
        async with worker(place, "new", PATCHED, gone=SOON):
            moved = await _once_gone(place)
            assert sorted(moved) == sorted(spec.episode_id for spec, _ in episodes)
            held.may_go_on.set()
            await assert_submitted(place, episodes)
        assert {await version(handle) for _, handle in episodes} == {"new"}


async def _once_gone(place: Arena) -> tuple[str, ...]:
    """What the first pass moves that finds the old worker gone."""
    while True:
        summary = await place.clean_up()
        if summary.moved or summary.stranded:
            return summary.moved
        await asyncio.sleep(0.2)


async def test_those_that_cannot_are_named_and_go_on_when_their_worker_comes_back(
    client: Client, tmp_path: Path
) -> None:
    held = Held()
    async with arena(client, {"held": held}, tmp_path) as place:
        async with worker(place, "old"):
            ((spec, handle),) = await begun(place, 1)
        async with worker(place, "new", LATER, gone=SOON):
            assert await _once_gone(place) == ()
            (stranded,) = (await place.clean_up()).stranded
            assert (stranded.episode_id, stranded.version) == (spec.episode_id, "old")
            assert "Timer machine does not handle this event" in stranded.reason
            ground = Ground(client, place.records, place.journal, place.objects, place.settings, gone=SOON)
            with pytest.raises(EnvironmentFailed, match="no worker has that"):
                await ground.stop(spec.episode_id)
            held.may_go_on.set()
            async with worker(place, "old"):
                await assert_submitted(place, [(spec, handle)])
            assert await version(handle) == "old"


async def test_those_that_wait_too_long_for_their_worker_are_ended_with_an_outcome(
    client: Client, tmp_path: Path
) -> None:
    async with arena(client, {"held": Held()}, tmp_path) as place:
        async with worker(place, "old"):
            ((spec, handle),) = await begun(place, 1)
        async with worker(place, "new", LATER, gone=SOON):
            await _once_gone(place)
            assert (await place.clean_up(stranded_s=0)).terminated == (handle.id,)
            assert (await place.clean_up()).reclaimed == (spec.episode_id,)
            result = await place.outcome(spec)
            assert (result.end, result.validity) == (End.TERMINATED, Validity.MISSING)
            assert "no worker has the version old" in result.reason
            await place.assert_nothing_left(spec)


async def test_passes_of_the_schedule_count_for_how_long_one_has_waited(client: Client, tmp_path: Path) -> None:
    """Nobody does anything by hand: it is told with the time that it still has, and then ended; even while there is
    something that no pass can do."""
    async with arena(client, {"held": Held()}, tmp_path) as place:
        changes = {"janitor_interval": timedelta(seconds=1), "stranded": timedelta(seconds=2)}
        place.settings = place.settings.model_copy(update=changes)
        async with worker(place, "old"):
            ((spec, _),) = await begun(place, 1)
        place.engine.lease(lease_request("unrecorded", cluster=place.settings.cluster))
        place.world.gates["quarantine"].failing = lambda: EnvironmentFailed("no quarantine")
        await keep_janitor(client, place.settings)
        try:
            async with worker(place, "new", LATER, gone=SOON):
                await until(lambda: _waits(place, spec))
                await until(lambda: place.records.result(spec.episode_id))
                place.world.gates["quarantine"].failing = None
                await until(lambda: not place.engine.leases())
        finally:
            await client.get_schedule_handle(janitor_of(place.settings)).delete()
        assert "no worker has the version old" in (await place.outcome(spec)).reason


async def _waits(place: Arena, spec: EpisodeSpec) -> bool:
    last = await last_pass(place.client, place.settings)
    told = {one.episode_id: one.waited_s for one in last.stranded} if last else {}
    return told.get(spec.episode_id, 0) > 0


async def test_a_long_episode_stays_on_its_version_when_it_continues_as_new_and_is_moved_as_a_whole(
    client: Client, tmp_path: Path
) -> None:
    held, turns = [Held(), Held()], 12

    async def adding(view: View) -> Decision:
        for at, one in zip((4, 8), held, strict=True):
            if view.turn == at:
                await one.may_go_on.wait()
        return Decision(submit={}) if view.turn == turns else calls("add", name="apples", amount=view.turn + 1)

    async with arena(client, {"adding": adding}, tmp_path) as place:
        spec = await place.plan(tally_task(), "adding")
        async with worker(place, "old"):
            handle = await place.start(spec, ONE_TURN.model_copy(update={"slices_per_run": 2}))
            await _asked(place, spec, 5)
            async with worker(place, "new", PATCHED):
                held[0].may_go_on.set()
                await _asked(place, spec, 9)
        chain = place.client.get_workflow_handle_for(EpisodeWorkflow.run, handle.id)
        assert await version(chain) == "old"
        async with worker(place, "new", PATCHED, gone=SOON):
            assert await _once_gone(place) == (spec.episode_id,)
            held[1].may_go_on.set()
            await chain.result()
        runs = await runs_of(client, handle.id)
        on = [
            await version(client.get_workflow_handle_for(EpisodeWorkflow.run, handle.id, run_id=run))
            for run in runs
        ]
        assert len(on) > 4
        assert on == sorted(on, reverse=True), "from old to new, and not back"
        assert (on[0], on[-1]) == ("old", "new")
        result = await place.outcome(spec)
        assert (result.end, result.counts.turns, result.counts.effects) == (End.SUBMITTED, turns + 1, turns)
        await place.assert_nothing_left(spec)


async def _asked(place: Arena, spec: EpisodeSpec, times: int) -> None:
    await until(lambda: place.policies.acted.get(spec.episode_id, 0) >= times)


async def test_episodes_of_workers_without_a_version_go_on(client: Client, tmp_path: Path) -> None:
    held = Held()
    async with arena(client, {"held": held}, tmp_path) as place:
        async with place.worker():
            episodes = await begun(place, 3)
        async with worker(place, "first"):
            held.may_go_on.set()
            await assert_submitted(place, episodes)
        assert {await version(handle) for _, handle in episodes} == {"first"}


async def test_an_old_worker_that_restarts_does_not_take_new_episodes_from_the_current_version(
    client: Client, tmp_path: Path
) -> None:
    held = Held()
    held.may_go_on.set()
    async with arena(client, {"held": held}, tmp_path) as place:
        async with worker(place, "old"):
            pass
        async with worker(place, "new", LATER), worker(place, "old"):
            ((_, handle),) = episodes = await begun(place, 1)
            await assert_submitted(place, episodes)
            assert await version(handle) == "new"


async def test_an_old_worker_takes_over_again_when_the_later_one_is_gone(client: Client, tmp_path: Path) -> None:
    held = Held()
    held.may_go_on.set()
    async with arena(client, {"held": held}, tmp_path) as place:
        for build in ("old", "new"):
            async with worker(place, build):
                pass
        await asyncio.sleep(SOON.total_seconds() + 1)
        async with worker(place, "old", gone=SOON):
            ((_, handle),) = episodes = await begun(place, 1)
            await assert_submitted(place, episodes)
            assert await version(handle) == "old"


@pytest.mark.parametrize("build", ["a", "b.c"])
async def test_a_queue_whose_name_has_a_dot_has_versions_too(client: Client, tmp_path: Path, build: str) -> None:
    held = Held()
    held.may_go_on.set()
    async with arena(client, {"held": held}, tmp_path) as place:
        place.queue = f"{place.queue}.dotted"
        place.settings = place.settings.model_copy(update={"task_queue": place.queue})
        async with worker(place, build):
            ((_, handle),) = episodes = await begun(place, 1)
            await assert_submitted(place, episodes)
            assert await version(handle) == build
