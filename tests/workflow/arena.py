"""Everything of an episode but its outside: real workflows and activities on a real server, over fakes."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import pytest
from temporalio.client import Client, WorkflowFailureError, WorkflowHandle
from temporalio.common import WorkflowIDReusePolicy

from schemas.base import JsonObject
from schemas.contract import ExpectedChange, Outcome, StateContract
from schemas.decision import Call, Decision
from schemas.episode import EpisodeResult, EpisodeSpec, PolicySpec, workflow_id
from schemas.slice import Summary
from schemas.start import EpisodeStart, Tuning
from schemas.task import Reference, Step, Task
from schemas.upkeep import UpkeepOrder, UpkeepSummary
from schemas.view import View
from schemas.world import LeaseRequest, Owner
from tiltyard.episode.tasks import TaskShelf
from tiltyard.testing.gated_world import GatedWorld
from tiltyard.testing.local_world import LocalWorld
from tiltyard.testing.memory_journal import MemoryJournal
from tiltyard.testing.memory_objects import MemoryObjects
from tiltyard.testing.memory_policies import Act, MemoryPolicies
from tiltyard.testing.memory_records import MemoryRecords
from tiltyard.testing.memory_sandboxes import MemorySandboxes
from tiltyard.testing.memory_worlds import MemoryWorlds
from tiltyard.testing.tally_world import TALLY
from tiltyard.trace import unpack
from tiltyard.worlds.engine import Engine
from tiltyard.worlds.kit import WorldKind
from workers.assembly import WORKFLOWS, Parts, at_work
from workers.chains import TemporalChains
from workers.ground import Ground, new_episode_id
from workers.settings import Settings
from workflows.episode import EpisodeWorkflow
from workflows.janitor import JanitorWorkflow

QUICK = Tuning(heartbeat_s=2, slice_s=0.5, patience_s=60)


def tally_task(**changes: object) -> Task:
    """Add one to the apples, and say so."""
    added = ExpectedChange(
        collection="tallies", key="apples", change="updated", fields={"total": 1}, may_change=("amounts",)
    )
    values: dict[str, object] = {
        "id": "tally/add/1",
        "world": "tally",
        "instruction": "Add 1 to apples.",
        "contracts": (StateContract(outcomes=(Outcome(changes=(added,)),)),),
        "references": (
            Reference(steps=(Step(tool="add", arguments={"name": "apples"}), Step(submit={"done": True}))),
        ),
        **changes,
    }
    return Task.model_validate(values)


def calls(tool: str, **arguments: object) -> Decision:
    return Decision(calls=(Call.model_validate({"tool": tool, "arguments": arguments}),))


def total_of(view: View) -> Decision:
    """Submits the total that the last turn has read."""
    content = view.transcript[-1].observations[0].content
    assert isinstance(content, dict)
    return Decision(submit={"total": content["total"]})


def honest(view: View) -> Decision:
    """Adds once, then submits."""
    done: JsonObject = {"done": True}
    return Decision(submit=done) if view.turn else calls("add", name="apples", operation_id="op-1")


@dataclass
class Arena:
    """Parts, and what tests do with them."""

    client: Client
    settings: Settings
    policies: MemoryPolicies
    engine: Engine
    world: GatedWorld
    queue: str
    journal: MemoryJournal = field(default_factory=MemoryJournal)
    records: MemoryRecords = field(default_factory=MemoryRecords)
    objects: MemoryObjects = field(default_factory=MemoryObjects)
    sandboxes: MemorySandboxes = field(default_factory=MemorySandboxes)

    @property
    def parts(self) -> Parts:
        return Parts(
            self.world,
            self.journal,
            self.records,
            self.objects,
            self.policies,
            TemporalChains(self.client),
            self.sandboxes,
        )

    @property
    def ground(self) -> Ground:
        return Ground(self.client, self.records, self.journal, self.objects, self.settings)

    def worker(
        self, workflows: tuple[type, ...] = WORKFLOWS, parts: Parts | None = None
    ) -> AbstractAsyncContextManager[None]:
        return at_work(self.client, parts or self.parts, self.settings, workflows=workflows)

    async def plan(self, task: Task, policy: str, seed: int = 0) -> EpisodeSpec:
        spec = EpisodeSpec(
            episode_id=new_episode_id(),
            task_id=task.id,
            task_digest=await TaskShelf(self.objects).store(task),
            world=task.world,
            policy=PolicySpec(target=policy),
            seed=seed,
            limits=task.limits,
            sandbox="bubblewrap" if task.needs_sandbox else None,
        )
        await self.records.plan([spec])
        return spec

    async def start(
        self, spec: EpisodeSpec, tuning: Tuning = QUICK, timeout: timedelta | None = None
    ) -> WorkflowHandle[EpisodeWorkflow, Summary]:
        return await self.client.start_workflow(
            EpisodeWorkflow.run,
            EpisodeStart(spec=spec, tuning=tuning),
            id=workflow_id(spec.episode_id),
            task_queue=self.queue,
            execution_timeout=timeout,
            id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
        )

    async def run(self, task: Task, policy: str, tuning: Tuning = QUICK, seed: int = 0) -> EpisodeResult:
        spec = await self.plan(task, policy, seed)
        await (await self.start(spec, tuning)).result()
        return await self.outcome(spec)

    async def outcome(self, spec: EpisodeSpec) -> EpisodeResult:
        found = await self.records.result(spec.episode_id)
        assert found is not None, "no outcome was recorded"
        return found

    async def clean_up(
        self, stuck_attempts: int = 20, tuning: Tuning = QUICK, stranded_s: float = 3600
    ) -> UpkeepSummary:
        """One pass of the janitor, and the end of all that it started."""
        order = UpkeepOrder(tuning=tuning, grace_s=0, stuck_attempts=stuck_attempts, stranded_s=stranded_s)
        summary = await self.client.execute_workflow(
            JanitorWorkflow.run, order, id=f"janitor-{new_episode_id()}", task_queue=self.queue
        )
        await until(lambda: self._settled(summary.reclaimed))
        return summary

    async def _settled(self, episodes: tuple[str, ...]) -> bool:
        leased = {lease.episode_id for lease in await self.world.leases()}
        recorded = [await self.records.result(one) for one in episodes]
        return None not in recorded and not leased & set(episodes)

    async def assert_nothing_left(self, spec: EpisodeSpec) -> None:
        """No lease of the episode, none of its jobs pending, its policy closed, and one outcome."""
        assert spec.episode_id not in {lease.episode_id for lease in self.engine.leases()}
        assert spec.episode_id in self.policies.closed
        evidence = unpack(await self.objects.get((await self.outcome(spec)).trace)).evidence
        assert evidence.drain.empty
        assert all(job.state != "pending" for job in evidence.facts.jobs)


async def until(condition: object, seconds: float = 30) -> None:
    """Wait for a condition (a function, or one that is awaited); fails after ``seconds``."""
    assert callable(condition)
    async with asyncio.timeout(seconds):
        while True:
            held = condition()
            if asyncio.iscoroutine(held):
                held = await held
            if held:
                return
            await asyncio.sleep(0.02)


@asynccontextmanager
async def arena(
    client: Client, policies: Mapping[str, Act], home: Path, world: WorldKind = TALLY
) -> AsyncIterator[Arena]:
    """An arena with one world, whose worker runs on a queue of its own."""
    queue = new_episode_id()
    settings = Settings(home=home, runtime=home, task_queue=queue, call_deadline=timedelta(seconds=5), tuning=QUICK)
    engine = Engine({world.name: world}, MemoryWorlds())
    place = Arena(
        client=client,
        settings=settings,
        policies=MemoryPolicies(policies),
        engine=engine,
        world=GatedWorld(LocalWorld(engine)),
        queue=queue,
    )
    yield place


Handle = WorkflowHandle[EpisodeWorkflow, Summary]


async def lingering(view: View) -> Decision:
    """Adds once with a job pending, then thinks for ever."""
    if view.turn == 0:
        return calls("add_later", name="apples", after_s=3600)
    await asyncio.sleep(3600)
    raise AssertionError


async def started(place: Arena) -> tuple[EpisodeSpec, Handle]:
    """An episode whose first effect has happened and whose policy thinks."""
    spec = await place.plan(tally_task(), "lingering")
    handle = await place.start(spec)
    await until(lambda: place.policies.acted.get(spec.episode_id, 0) >= 2)
    return spec, handle


async def cause_of(handle: Handle) -> BaseException | None:
    with pytest.raises(WorkflowFailureError) as failure:
        await handle.result()
    return failure.value.cause


def lease_request(episode_id: str, cluster: str = "here", first_run_id: str = "run") -> LeaseRequest:
    owner = Owner(
        cluster=cluster,
        temporal_namespace="default",
        workflow_id=f"episode/{episode_id}",
        first_run_id=first_run_id,
    )
    return LeaseRequest(owner=owner, episode_id=episode_id, world="tally")
