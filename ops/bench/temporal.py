"""What Temporal costs an episode: against a workflow with as many empty activities, on one server and worker.

The episode's world, journal, records and objects are in memory and its policy is two lines, so that what is left is
Temporal and our own code around it.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from temporalio.api.enums.v1 import EventType
from temporalio.client import Client, WorkflowHandle

from infra.local.stack import Say
from ops.bench.empty import EmptyActivities, nothing
from ops.bench.figures import Figure, Measure, interleaved, timed
from ops.bench.stack import AT_ONCE, Stack, stack
from schemas.contract import AnswerContract
from schemas.decision import Call, Decision
from schemas.episode import EpisodeSpec, PolicySpec, workflow_id
from schemas.start import EpisodeStart
from schemas.task import Reference, Step, Task
from schemas.view import View
from tiltyard.episode.tasks import TaskShelf
from tiltyard.testing.local_world import LocalWorld
from tiltyard.testing.memory_journal import MemoryJournal
from tiltyard.testing.memory_objects import MemoryObjects
from tiltyard.testing.memory_policies import MemoryPolicies
from tiltyard.testing.memory_records import MemoryRecords
from tiltyard.testing.memory_sandboxes import MemorySandboxes
from tiltyard.testing.memory_worlds import MemoryWorlds
from tiltyard.testing.tally_world import TALLY
from tiltyard.worlds.engine import Engine
from workers.assembly import WORKFLOWS, Parts, activities_of, worker_of
from workers.chains import TemporalChains
from workers.ground import new_episode_id
from workflows.episode import EpisodeWorkflow

ROUNDS = 40
QUEUE = "bench"

ADD = Call(tool="add", arguments={"name": "apples"})
TASK = Task(
    id="tally/bench/add",
    world="tally",
    instruction="Add 1 to apples.",
    contracts=(AnswerContract(accept=({"done": True},)),),
    references=(Reference(steps=(Step(submit={"done": True}),)),),
)


async def measure(most: int, say: Say) -> list[Figure]:
    """One at a time, and ``AT_ONCE`` at once; the same number of each in turn."""
    rounds = min(ROUNDS, most)
    async with stack(say) as ours, _workers(ours) as place:
        activities = await _activities_of_an_episode(place)
        say(f"an episode has {activities} activities")
        figures: list[Figure] = []
        for at_once in (1, AT_ONCE):
            series = await interleaved(
                {
                    "empty": _each(at_once, lambda: place.empty(activities)),
                    "episode": _each(at_once, place.episode),
                },
                rounds if at_once == 1 else -(-rounds // 4),
            )
            when = "one at a time" if at_once == 1 else f"{at_once} at once, each"
            empty = Figure.of(f"{activities} empty activities, {when}", series["empty"])
            figures += [
                empty,
                Figure.of(f"an episode of {activities} activities, {when}", series["episode"]).over(empty),
            ]
        return figures


@dataclass
class _Place:
    """Starts workflows on the bench's own queue, and waits for them."""

    client: Client
    task_digest: str

    async def episode(self) -> None:
        await (await self.started()).result()

    async def started(self) -> WorkflowHandle[EpisodeWorkflow, object]:
        spec = EpisodeSpec(
            episode_id=new_episode_id(),
            task_id=TASK.id,
            task_digest=self.task_digest,
            world=TASK.world,
            policy=PolicySpec(target="adds_once"),
            limits=TASK.limits,
        )
        return await self.client.start_workflow(
            EpisodeWorkflow.run, EpisodeStart(spec=spec), id=workflow_id(spec.episode_id), task_queue=QUEUE
        )

    async def empty(self, activities: int) -> None:
        await self.client.execute_workflow(EmptyActivities.run, activities, id=new_episode_id(), task_queue=QUEUE)


@asynccontextmanager
async def _workers(ours: Stack) -> AsyncIterator[_Place]:
    """One worker for both kinds of workflows, on a queue that the stack's own worker does not poll."""
    client, objects = ours.ground.client, MemoryObjects()
    settings = ours.settings.model_copy(update={"task_queue": QUEUE})
    parts = Parts(
        world=LocalWorld(Engine({TALLY.name: TALLY}, MemoryWorlds())),
        journal=MemoryJournal(),
        records=MemoryRecords(),
        objects=objects,
        policies=MemoryPolicies({"adds_once": _adds_once}),
        chains=TemporalChains(client),
        sandboxes=MemorySandboxes(),
    )
    activities = [*activities_of(parts, settings), nothing]
    async with worker_of(client, activities, QUEUE, (*WORKFLOWS, EmptyActivities)):
        yield _Place(client, await TaskShelf(objects).store(TASK))


def _adds_once(view: View) -> Decision:
    return Decision(submit={"done": True}) if view.turn else Decision(calls=(ADD,))


async def _activities_of_an_episode(place: _Place) -> int:
    """Counted in its history."""
    handle = await place.started()
    await handle.result()
    scheduled = EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED
    return len([event async for event in handle.fetch_history_events() if event.event_type == scheduled])


def _each(at_once: int, work: Callable[[], Awaitable[None]]) -> Measure:
    """Seconds of each of several at once, as their share of the time that all took."""
    whole = timed(lambda: asyncio.gather(*(work() for _ in range(at_once))))

    async def share() -> float:
        return await whole() / at_once

    return share
