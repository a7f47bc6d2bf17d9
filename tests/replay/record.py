"""Record the histories that ``test_replay`` replays: ``.venv/bin/python -m tests.replay.record``.

Run it when an incompatible change of a workflow is meant, and no episode of the old code runs any more. Otherwise
a mismatch calls for ``workflow.patched``.
"""

import asyncio
import json
import re
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

from temporalio.client import Client, WorkflowFailureError
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.testing import WorkflowEnvironment

from infra.local.temporal import temporal_binary
from schemas.decision import Decision
from schemas.episode import workflow_id
from schemas.start import Tuning
from schemas.task import Limits
from schemas.view import View
from tests.workflow.arena import QUICK, Arena, arena, calls, honest, tally_task, until
from tests.workflow.boxes import box_task, sleeper, writer
from tiltyard.errors import BadInput
from tiltyard.testing.memory_policies import Act

HISTORIES = Path(__file__).parent / "histories"
ONE_TURN = Tuning(slice_turns=1, slices_per_run=2, heartbeat_s=2)


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


KINDS: tuple[Callable[[Arena], Awaitable[str]], ...] = (
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


async def record(client: Client, kind: Callable[[Arena], Awaitable[str]]) -> None:
    with tempfile.TemporaryDirectory() as home:
        async with arena(client, POLICIES, Path(home)) as place, place.worker():
            name = workflow_id(await kind(place))
            with suppress(WorkflowFailureError):
                await client.get_workflow_handle(name).result()
            history = await client.get_workflow_handle(name).fetch_history()
    document = {"workflow_id": name, "history": scrubbed(json.loads(history.to_json()))}
    (HISTORIES / f"{kind.__name__}.json").write_text(json.dumps(document, indent=1) + "\n")


def scrubbed(value: object) -> object:
    """Without what belongs to the machine that it was recorded on."""
    if isinstance(value, dict):
        return {
            key: "" if key == "stackTrace" else "recorder" if key == "identity" else scrubbed(inner)
            for key, inner in value.items()
        }
    if isinstance(value, list):
        return [scrubbed(inner) for inner in value]
    return re.sub(r"^\d+@.*|.*:[0-9a-f]{32}$", "recorder", value) if isinstance(value, str) else value


async def main() -> None:
    async with await WorkflowEnvironment.start_local(
        dev_server_existing_path=temporal_binary(), data_converter=pydantic_data_converter
    ) as environment:
        for kind in KINDS:
            await record(environment.client, kind)


if __name__ == "__main__":
    asyncio.run(main())
