"""Further ends of episodes whose histories are saved: by the policy, by a person, by the server."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta

from schemas.decision import Decision
from schemas.episode import workflow_id
from schemas.start import Tuning
from schemas.task import Limits
from schemas.view import View
from tests.replay.kinds import Runs, ended, thoughtful
from tests.workflow.arena import QUICK, Arena, calls, tally_task, until
from tests.workflow.boxes import box_task
from tests.workflow.resets import reset, runs_of, tasks_of
from tiltyard.errors import NotPristine, WorldUnreachable
from tiltyard.testing.memory_policies import Act

AT_ONCE = QUICK.model_copy(update={"keep_sandbox_s": 0})


def giving_up(view: View) -> Decision:
    return Decision(give_up="it is too hard")


def adding(view: View) -> Decision:
    return calls("add", name="apples", amount=view.turn + 1)


def repeating(view: View) -> Decision:
    return calls("read", name="apples")


async def slow(view: View) -> Decision:
    await asyncio.sleep(60)
    raise AssertionError


def raising(view: View) -> Decision:
    raise ZeroDivisionError("a bug of the policy")


def asking_twice(view: View) -> Decision:
    return Decision(ask="How many?") if view.turn < 2 else Decision(submit={"done": True})


ENDS: dict[str, Act] = {
    "giving_up": giving_up,
    "adding": adding,
    "repeating": repeating,
    "slow": slow,
    "raising": raising,
    "asking_twice": asking_twice,
}


async def gave_up(place: Arena) -> Runs:
    return await ended(place, "giving_up")


async def budget_exhausted(place: Arena) -> Runs:
    return await ended(place, "adding", limits=Limits(turns=3))


async def out_of_time(place: Arena) -> Runs:
    return await ended(place, "slow", limits=Limits(wall_s=1, turn_s=1))


async def stalled(place: Arena) -> Runs:
    return await ended(place, "repeating")


async def policy_error(place: Arena) -> Runs:
    return await ended(place, "raising")


async def policy_unknown(place: Arena) -> Runs:
    return await ended(place, "nobody")


async def environment_error(place: Arena) -> Runs:
    """The world is away for longer than a call is sent again."""
    place.settings = place.settings.model_copy(update={"call_deadline": timedelta(seconds=0.3)})
    place.world.gates["call"].failing = lambda: WorldUnreachable("no reply from the world")
    async with place.worker():
        return await ended(place, "honest")


async def not_pristine(place: Arena) -> Runs:
    place.world.gates["drain"].failing = lambda: NotPristine("the template has changed")
    return await ended(place, "honest")


async def not_given_back(place: Arena) -> Runs:
    place.world.gates["recycle"].failing = lambda: WorldUnreachable("no reply from the world")
    return await ended(place, "honest", QUICK.model_copy(update={"patience_s": 2}))


async def cancelled_while_leasing(place: Arena) -> Runs:
    return await _cancelled_at(place, "lease")


async def cancelled_while_closing(place: Arena) -> Runs:
    return await _cancelled_at(place, "drain")


async def _cancelled_at(place: Arena, step: str) -> Runs:
    gate = place.world.gates[step]
    gate.shut()
    spec = await place.plan(tally_task(), "honest")
    handle = await place.start(spec)
    await gate.reached.wait()
    for _ in range(2):
        await handle.cancel()
        await asyncio.sleep(0.3)
    gate.open()
    return spec.episode_id


async def cancelled_before_its_first_task(place: Arena) -> Runs:
    """Without a worker at first: the kind brings its own."""
    spec = await place.plan(tally_task(), "honest")
    handle = await place.start(spec)
    await handle.cancel()
    async with place.worker():
        await until(lambda: place.records.result(spec.episode_id))
    return spec.episode_id


async def stopped_while_paused(place: Arena) -> Runs:
    spec = await place.plan(tally_task(), "asking")
    await place.start(spec)
    await _asks(place, spec.episode_id)
    await place.ground.pause(spec.episode_id)
    await place.ground.answer(spec.episode_id, "seven")
    await _is(place, spec.episode_id, "paused")
    await place.ground.stop(spec.episode_id)
    return spec.episode_id


async def stopped_while_asking(place: Arena) -> Runs:
    spec = await place.plan(tally_task(), "asking")
    await place.start(spec)
    await _asks(place, spec.episode_id)
    await place.ground.stop(spec.episode_id)
    return spec.episode_id


async def stopped_without_its_sandbox(place: Arena) -> Runs:
    """Held by a pause in which the sandbox is given up."""
    spec = await place.plan(box_task(), "asking_twice")
    await place.start(spec, AT_ONCE)
    await _asks(place, spec.episode_id)
    await place.ground.pause(spec.episode_id)
    await place.ground.answer(spec.episode_id, "seven")
    await _is(place, spec.episode_id, "paused")
    await place.ground.resume(spec.episode_id)
    await _asks(place, spec.episode_id)
    await place.ground.stop(spec.episode_id)
    return spec.episode_id


async def _asks(place: Arena, episode_id: str) -> None:
    async def asks() -> bool:
        return bool((await place.ground.status(episode_id)).question)

    await until(asks)


async def _is(place: Arena, episode_id: str, phase: str) -> None:
    async def there() -> bool:
        return (await place.ground.status(episode_id)).phase == phase

    await until(there)


async def terminated(place: Arena) -> Runs:
    """As the episode's own history ends; what the janitor does of it is a kind of its own."""
    episode = await thoughtful(place)
    await place.client.get_workflow_handle(workflow_id(episode)).terminate()
    return episode


async def timed_out(place: Arena) -> Runs:
    spec = await place.plan(tally_task(), "thinking")
    await place.start(spec, timeout=timedelta(seconds=2))
    return spec.episode_id


async def continued_as_new_runs(place: Arena) -> Runs:
    """Each run of a chain; the last one of another is ``continued_as_new``."""
    tuning = Tuning(slice_turns=1, slices_per_run=1, heartbeat_s=2)
    name = workflow_id(await ended(place, "adding", tuning, limits=Limits(turns=3)))
    runs = await runs_of(place.client, name)
    return {str(number): (name, run_id) for number, run_id in enumerate(runs, 1)}


async def reset_before_the_lease(place: Arena) -> Runs:
    return await _reset_in_the_turns(place, 0)


async def reset_after_the_lease(place: Arena) -> Runs:
    return await _reset_in_the_turns(place, 1)


async def _reset_in_the_turns(place: Arena, task: int) -> Runs:
    """The run that was ended by it, in the middle of a turn, and the one that goes on."""
    name = workflow_id(await thoughtful(place))
    first = (await place.client.get_workflow_handle(name).describe()).run_id
    again = await reset(place.client, name, (await tasks_of(place.client, name))[task])
    await place.ground.stop(name.removeprefix("episode/"))
    return {"before": (name, first), "after": (name, again)}


async def reset_after_its_end(place: Arena) -> Runs:
    name = workflow_id(await ended(place, "adding", limits=Limits(turns=3)))
    again = await reset(place.client, name, (await tasks_of(place.client, name))[-2])
    return {"after": (name, again)}


KINDS: tuple[Callable[[Arena], Awaitable[Runs]], ...] = (
    gave_up,
    budget_exhausted,
    out_of_time,
    stalled,
    policy_error,
    policy_unknown,
    not_pristine,
    not_given_back,
    cancelled_while_leasing,
    cancelled_while_closing,
    stopped_while_paused,
    stopped_while_asking,
    stopped_without_its_sandbox,
    terminated,
    timed_out,
    continued_as_new_runs,
    reset_before_the_lease,
    reset_after_the_lease,
    reset_after_its_end,
)

BY_THEMSELVES: tuple[Callable[[Arena], Awaitable[Runs]], ...] = (
    cancelled_before_its_first_task,
    environment_error,
)
"""These bring workers of their own."""
