"""I1, I2: an episode that crashes at any one step has the same effects, once, and the same trace digest."""

import itertools
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from schemas.contract import ExpectedChange, Outcome, StateContract
from schemas.decision import Call, Decision
from schemas.episode import EpisodeSpec, PolicySpec
from schemas.fault import Fault
from schemas.slice import CloseRequest, LeaseRef, SliceReport, SliceRequest
from schemas.start import LeaseOrder
from schemas.task import Reference, Settle, Step, Task
from schemas.view import View
from tests.unit.episode.crashing import Crashing, Fuse, no_fork, restarted
from tiltyard.episode.closing import Closer
from tiltyard.episode.collecting import SandboxCloser
from tiltyard.episode.delivery import Reconciler
from tiltyard.episode.gateway import Gateway
from tiltyard.episode.known import MOST_BYTES, KnownJournals
from tiltyard.episode.leasing import Leasing
from tiltyard.episode.sandboxing import Checkpoints
from tiltyard.episode.slices import SliceRunner
from tiltyard.episode.tasks import TaskShelf
from tiltyard.ports import Journal, World
from tiltyard.testing.local_world import LocalWorld
from tiltyard.testing.memory_journal import MemoryJournal
from tiltyard.testing.memory_objects import MemoryObjects
from tiltyard.testing.memory_policies import MemoryPolicies
from tiltyard.testing.memory_sandboxes import MemorySandboxes
from tiltyard.testing.memory_worlds import MemoryWorlds
from tiltyard.testing.once import flaws
from tiltyard.testing.tally_world import TALLY
from tiltyard.trace import trace_digest, unpack
from tiltyard.worlds.engine import Engine

TASK = Task(
    id="tally/add/1",
    world="tally",
    instruction="Add to the apples.",
    faults=(Fault(tool="add", kind="commit_then_drop", nth=2),),
    settle=Settle(limit_s=3600),
    contracts=(
        StateContract(outcomes=(Outcome(changes=(ExpectedChange(collection="tallies", change="updated"),)),)),
    ),
    references=(Reference(steps=(Step(submit={}),)),),
)


def policy(view: View) -> Decision:
    """Two calls in one turn, a lost reply, a retry under the same operation id, work put off, an answer."""
    plan: tuple[Decision, ...] = (
        Decision(calls=(_add(1), _add(2, "op-2"))),
        Decision(calls=(_add(2, "op-2"),), memo={"asked": view.turn}),
        Decision(calls=(Call(tool="add_later", arguments={"name": "pears", "after_s": 600}),)),
        Decision(submit={"memo": view.memo}),
    )
    return plan[view.turn]


def _add(amount: int, operation: str | None = None) -> Call:
    arguments = {"name": "apples", "amount": amount, **({"operation_id": operation} if operation else {})}
    return Call.model_validate({"tool": "add", "arguments": arguments})


async def episode(fuse: Fuse, engine: Engine, slice_turns: int, kept_bytes: int) -> tuple[str, int]:
    """Run one episode to its evidence; whoever crashes is started again. (trace digest, effects on apples)."""
    journal: Journal = Crashing(MemoryJournal(), fuse)
    world: World = Crashing(LocalWorld(engine), fuse)
    objects = MemoryObjects()
    shelf = TaskShelf(objects)
    policies = MemoryPolicies({"policy": policy})
    reconciler = Reconciler(world, timedelta(seconds=5))
    sandboxes = MemorySandboxes()
    gateway = Gateway(world, reconciler, sandboxes)
    checkpoints = Checkpoints(sandboxes, reconciler, objects)
    runner = SliceRunner(
        *(gateway, checkpoints, journal, policies, shelf.load, lambda _: fuse.step("committed")),
        known=KnownJournals(kept_bytes),
    )
    spec = EpisodeSpec(
        episode_id="e-1",
        task_id=TASK.id,
        task_digest=await shelf.store(TASK),
        world="tally",
        policy=PolicySpec(target="policy"),
        limits=TASK.limits,
    )
    attempts = (f"attempt-{number}" for number in itertools.count())
    leasing = Leasing(world, reconciler, shelf.load, journal, objects, no_fork, "cluster", "default")
    order = LeaseOrder(spec=spec, first_run_id="run-1")
    lease = await restarted(lambda: leasing.lease(order, "episode/e-1"))
    report = await _turns(runner, spec, lease, attempts, slice_turns)
    assert report.ending is not None
    boxes = SandboxCloser(sandboxes, reconciler, objects)
    closer = Closer(world, reconciler, gateway, boxes, journal, objects, policies, shelf.load)
    request = CloseRequest(spec=spec, lease=lease, ending=report.ending)
    closed = await restarted(lambda: closer.close(request))
    evidence = unpack(await objects.get(closed.trace)).evidence
    assert flaws(evidence.facts) == ()
    effects = sum(not row.system and row.cause_kind == "delivery" for row in evidence.facts.ledger)
    return trace_digest(TASK, evidence.facts, evidence.turns, evidence.ending.end), effects


async def _turns(
    runner: SliceRunner, spec: EpisodeSpec, lease: LeaseRef, attempts: Iterator[str], slice_turns: int
) -> SliceReport:
    for slice_no in itertools.count():
        request = SliceRequest(
            spec=spec,
            lease=lease,
            run_id="run-1",
            slice_no=slice_no,
            seconds=60,
            max_turns=slice_turns,
            wall_left_s=600,
        )
        report: SliceReport = await restarted(lambda request=request: runner.run(request, next(attempts)))
        if report.reason == "end":
            return report
    raise AssertionError


@pytest.mark.parametrize(("slice_turns", "kept_bytes"), [(1, 0), (1, MOST_BYTES), (10, 0)])
async def test_a_crash_at_any_step_changes_nothing(slice_turns: int, kept_bytes: int) -> None:
    """Also where the worker keeps nothing of its last slice, as another worker would not have it."""
    calm = Fuse()
    undisturbed = await episode(calm, Engine({"tally": TALLY}, MemoryWorlds()), slice_turns, kept_bytes)
    assert undisturbed[1] == 2
    assert calm.steps > 40
    for at in range(calm.steps):
        fuse = Fuse(at)
        outcome = await episode(fuse, Engine({"tally": TALLY}, MemoryWorlds()), slice_turns, kept_bytes)
        assert outcome == undisturbed, f"a crash {fuse.names[at]} (step {at}) made a difference"


class Forgetful:
    """A journal that loses what is not finished: the sabotage that the test above must catch."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def __getattr__(self, name: str) -> Any:
        return getattr(self._journal, name)

    async def read(self, episode_id: str, generation: int) -> Any:
        turns = await self._journal.read(episode_id, generation)
        return turns[:1]


async def test_a_journal_that_forgets_is_caught() -> None:
    """With turns forgotten the policy is asked again, and the world refuses one delivery with two requests."""
    journal = Forgetful(MemoryJournal())
    engine = Engine({"tally": TALLY}, MemoryWorlds())
    objects = MemoryObjects()
    shelf = TaskShelf(objects)
    seen: list[int] = []

    def wavering(view: View) -> Decision:
        seen.append(view.turn)
        return Decision(calls=(_add(len(seen)),)) if len(seen) < 4 else Decision(submit={})

    world = LocalWorld(engine)
    reconciler = Reconciler(world, timedelta(seconds=1))
    gateway = Gateway(world, reconciler, MemorySandboxes())
    checkpoints = Checkpoints(MemorySandboxes(), reconciler, objects)
    policies = MemoryPolicies({"policy": wavering})
    runner = SliceRunner(gateway, checkpoints, journal, policies, shelf.load, known=KnownJournals(0))
    spec = EpisodeSpec(
        episode_id="e-1",
        task_id=TASK.id,
        task_digest=await shelf.store(TASK),
        world="tally",
        policy=PolicySpec(target="policy"),
        limits=TASK.limits,
    )
    leasing = Leasing(world, reconciler, shelf.load, journal, objects, no_fork, "cluster", "default")
    lease = await leasing.lease(LeaseOrder(spec=spec, first_run_id="run-1"), "episode/e-1")
    report = await _turns(runner, spec, lease, iter("abcdefgh"), 2)
    assert report.ending is not None
    assert report.ending.end == "environment_error"
