"""Episodes whose histories are saved: each function plays one, up to the point where it ends by itself."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from schemas.decision import Decision
from schemas.episode import workflow_id
from schemas.start import Tuning
from schemas.task import Limits
from schemas.view import View
from tests.workflow.arena import QUICK, Arena, calls, honest, tally_task, until
from tests.workflow.boxes import box_task, sleeper, writer
from tiltyard.errors import BadInput
from tiltyard.testing.memory_policies import Act

ONE_TURN = Tuning(slice_turns=1, slices_per_run=2, heartbeat_s=2)

Runs = str | Mapping[str, tuple[str, str | None]]
"""What a kind has played: an episode's id, or workflow id and run of each part by its name; no run: the last."""


async def thinking(view: View) -> Decision:
    if view.turn == 0:
        return calls("add_later", name="apples", after_s=3600)
    await asyncio.sleep(3600)
    raise AssertionError


def asking(view: View) -> Decision:
    return Decision(ask="How many?") if view.turn == 0 else honest(view.model_copy(update={"turn": view.turn - 1}))


def waiting(view: View) -> Decision:
    return calls("wait", seconds=1) if view.turn == 0 else Decision(submit={"done": True})


POLICIES: dict[str, Act] = {
    "honest": honest,
    "thinking": thinking,
    "asking": asking,
    "waiting": waiting,
    "writer": writer,
    "sleeper": sleeper,
}


async def ended(place: Arena, policy: str, tuning: Tuning = QUICK, **task: object) -> str:
    spec = await place.plan(tally_task(**task), policy)
    await (await place.start(spec, tuning)).result()
    return spec.episode_id


async def thoughtful(place: Arena) -> str:
    spec = await place.plan(tally_task(), "thinking")
    await place.start(spec)
    await until(lambda: place.policies.acted.get(spec.episode_id, 0) >= 2)
    return spec.episode_id


async def submitted(place: Arena) -> str:
    return await ended(place, "honest")


async def continued_as_new(place: Arena) -> str:
    return await ended(place, "honest", Tuning(slice_turns=1, slices_per_run=1, heartbeat_s=2))


async def waited(place: Arena) -> str:
    return await ended(place, "waiting", waiting="real")


async def nobody_answered(place: Arena) -> str:
    return await ended(place, "asking", limits=Limits(answer_s=0.2))


async def lease_refused(place: Arena) -> str:
    place.world.gates["lease"].failing = lambda: BadInput("no such template", field="template")
    return await ended(place, "honest")


async def cancelled(place: Arena) -> str:
    episode = await thoughtful(place)
    await place.client.get_workflow_handle(workflow_id(episode)).cancel()
    return episode


async def stopped(place: Arena) -> str:
    episode = await thoughtful(place)
    await place.ground.stop(episode)
    return episode


async def paused_and_answered(place: Arena) -> str:
    spec = await place.plan(tally_task(), "asking")
    await place.start(spec, ONE_TURN)
    await place.ground.pause(spec.episode_id)
    await place.ground.resume(spec.episode_id)

    async def asks() -> bool:
        return bool((await place.ground.status(spec.episode_id)).question)

    await until(asks)
    await place.ground.answer(spec.episode_id, "seven")
    return spec.episode_id


async def with_commands(place: Arena) -> str:
    spec = await place.plan(box_task(), "writer")
    await (await place.start(spec)).result()
    return spec.episode_id


async def sandbox_lost(place: Arena) -> str:
    spec = await place.plan(box_task(), "sleeper")
    await place.start(spec, ONE_TURN)
    await until(lambda: len(place.sandboxes.executions) == 2)
    place.sandboxes.lose(spec.episode_id)
    return spec.episode_id


async def sandbox_given_up(place: Arena) -> str:
    spec = await place.plan(box_task(), "asking")
    await place.start(spec, QUICK.model_copy(update={"keep_sandbox_s": 0}))

    async def given_up() -> bool:
        made = await place.sandboxes.sandboxes()
        return not made and bool((await place.ground.status(spec.episode_id)).question)

    await until(given_up)
    await place.ground.answer(spec.episode_id, "seven")
    return spec.episode_id


KINDS: tuple[Callable[[Arena], Awaitable[Runs]], ...] = (
    submitted,
    continued_as_new,
    waited,
    nobody_answered,
    lease_refused,
    cancelled,
    stopped,
    paused_and_answered,
    with_commands,
    sandbox_lost,
    sandbox_given_up,
)
