"""Forks, replays, and episodes that an upgrade comes upon: kinds of histories that are saved."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta

from schemas.decision import Decision
from schemas.episode import EpisodeSpec, workflow_id
from schemas.start import Tuning
from schemas.task import Limits, Task
from schemas.upkeep import UpkeepOrder
from schemas.view import View
from tests.replay.kinds import ONE_TURN, Runs
from tests.workflow.arena import QUICK, Arena, calls, tally_task, until
from tests.workflow.boxes import box_task
from tests.workflow.broken_episodes import LaterEpisode, PatchedEpisode
from tests.workflow.resets import runs_of
from tests.workflow.versioned import code, worker
from tiltyard.errors import WorldUnreachable
from tiltyard.reopen.replaying import Replaying
from tiltyard.testing.memory_policies import Act
from workers.ground import new_episode_id
from workflows.janitor import JanitorWorkflow

AT_ONCE = timedelta()
"""A worker that is away is gone."""


def four(view: View) -> Decision:
    """Adds in four turns."""
    return Decision(submit={"done": True}) if view.turn == 4 else calls("add", name="apples", amount=view.turn + 1)


async def held(view: View) -> Decision:
    """Thinks for a while in its second turn; nobody waits for it."""
    if view.turn == 1:
        await asyncio.sleep(2)
    return Decision(submit={"done": True}) if view.turn == 2 else calls("add", name="apples", amount=view.turn + 1)


def asks_later(view: View) -> Decision:
    if view.turn == 1:
        return Decision(ask="Go on?")
    return Decision(submit={"done": True}) if view.turn else calls("add", name="apples")


REOPENED: dict[str, Act] = {"four": four, "held": held, "asks_later": asks_later}


async def _parent(place: Arena, task: Task, policy: str) -> str:
    spec = await place.plan(task, policy)
    await (await place.start(spec, ONE_TURN)).result()
    return spec.episode_id


async def _ended(place: Arena, spec: EpisodeSpec, tuning: Tuning = QUICK) -> str:
    await place.records.plan([spec])
    await (await place.start(spec, tuning)).result()
    return spec.episode_id


async def forked(place: Arena) -> Runs:
    return await _ended(place, await place.ground.plan_fork(await _parent(place, tally_task(), "four"), 2))


async def forked_with_commands(place: Arena) -> Runs:
    return await _ended(place, await place.ground.plan_fork(await _parent(place, box_task(), "writer"), 2))


async def forked_in_many_runs(place: Arena) -> Runs:
    spec = await place.ground.plan_fork(await _parent(place, tally_task(), "four"), 1)
    name = workflow_id(await _ended(place, spec, ONE_TURN.model_copy(update={"slices_per_run": 2})))
    return {str(number): (name, run_id) for number, run_id in enumerate(await runs_of(place.client, name), 1)}


async def forked_from_where_nothing_answers(place: Arena) -> Runs:
    spec = await place.ground.plan_fork(await _parent(place, tally_task(), "four"), 2)
    place.world.gates["lease"].failing = lambda: WorldUnreachable("no reply from the world")
    return await _ended(place, spec, QUICK.model_copy(update={"patience_s": 1}))


async def replayed(place: Arena) -> Runs:
    return await _replayed(place, await _parent(place, tally_task(), "four"))


async def replayed_with_commands(place: Arena) -> Runs:
    return await _replayed(place, await _parent(place, box_task(), "writer"))


async def replayed_with_a_question(place: Arena) -> Runs:
    return await _replayed(place, await _parent(place, tally_task(limits=Limits(answer_s=0.2)), "asks_later"))


async def _replayed(place: Arena, episode_id: str) -> Runs:
    replaying = Replaying(place.records, place.objects)
    return await _ended(
        place, await replaying.plan(await replaying.original(episode_id), new_episode_id()), ONE_TURN
    )


async def upgraded(place: Arena) -> Runs:
    """It ends on its own version, beside a worker of the next one; and one that begins on that."""
    async with worker(place, "old"):
        before = await _begun(place)
        async with worker(place, "new", code(PatchedEpisode)):
            await place.client.get_workflow_handle(workflow_id(before)).result()
    return before


async def moved(place: Arena) -> Runs:
    """Its worker goes away in the middle of a turn, and it ends on the next version. And the pass that moved it."""
    async with worker(place, "old"):
        episode = await _begun(place)
    async with worker(place, "new", code(PatchedEpisode), gone=AT_ONCE):
        done = await _pass(place)
        await place.client.get_workflow_handle(workflow_id(episode)).result()
    return {"episode": (workflow_id(episode), None), "pass": (done, None)}


async def stranded(place: Arena) -> Runs:
    """It cannot go on with the next version: a pass that says so, and one that ends it."""
    async with worker(place, "old"):
        episode = await _begun(place)
    async with worker(place, "new", code(LaterEpisode), gone=AT_ONCE):
        passes = [await _pass(place), await _pass(place, limit_s=0), await _pass(place)]
        await until(lambda: place.records.result(episode))
    return {
        "episode": (workflow_id(episode), None),
        **{f"pass_{number}": (name, None) for number, name in enumerate(passes, 1)},
    }


async def _begun(place: Arena) -> str:
    spec = await place.plan(tally_task(), "held")
    await place.start(spec, QUICK.model_copy(update={"slice_turns": 1}))
    await until(lambda: place.policies.acted.get(spec.episode_id, 0) >= 2)
    return spec.episode_id


async def _pass(place: Arena, limit_s: float = 3600) -> str:
    handle = await place.client.start_workflow(
        JanitorWorkflow.run,
        UpkeepOrder(tuning=QUICK, grace_s=0, stranded_s=limit_s),
        id=f"janitor-{new_episode_id()}",
        task_queue=place.queue,
    )
    await handle.result()
    return handle.id


KINDS: tuple[Callable[[Arena], Awaitable[Runs]], ...] = (
    forked,
    forked_with_commands,
    forked_in_many_runs,
    forked_from_where_nothing_answers,
    replayed,
    replayed_with_commands,
    replayed_with_a_question,
)

BY_THEMSELVES: tuple[Callable[[Arena], Awaitable[Runs]], ...] = (upgraded, moved, stranded)
"""These bring workers of their own."""
