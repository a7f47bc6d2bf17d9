"""I1, I7: an episode with commands that crashes at any step of its checkpoints keeps the same files, each once."""

import itertools
from dataclasses import dataclass, field
from datetime import timedelta

from schemas.contract import AnswerContract
from schemas.decision import Call, Decision
from schemas.episode import EpisodeSpec, PolicySpec
from schemas.evidence import Evidence
from schemas.operation import SandboxReply, SandboxRequest
from schemas.sandbox import SandboxPlan, SandboxRef
from schemas.slice import CloseRequest, LeaseRef, SliceReport, SliceRequest
from schemas.start import LeaseOrder, Provisioned, ProvisionOrder
from schemas.task import Reference, Step, Task
from schemas.view import View
from tests.unit.episode.crashing import Crashing, Fuse, no_fork, restarted
from tiltyard.episode.closing import Closer
from tiltyard.episode.collecting import SandboxCloser
from tiltyard.episode.delivery import Reconciler
from tiltyard.episode.gateway import Gateway
from tiltyard.episode.leasing import Leasing
from tiltyard.episode.sandboxing import Checkpoints, Sandboxing
from tiltyard.episode.slices import SliceRunner
from tiltyard.episode.tasks import TaskShelf
from tiltyard.ports import Objects, Sandboxes
from tiltyard.sandbox.files import start_of
from tiltyard.sandbox.keeping import fetch
from tiltyard.testing.local_world import LocalWorld
from tiltyard.testing.memory_journal import MemoryJournal
from tiltyard.testing.memory_objects import MemoryObjects
from tiltyard.testing.memory_policies import MemoryPolicies
from tiltyard.testing.memory_sandboxes import MemorySandboxes
from tiltyard.testing.memory_worlds import MemoryWorlds
from tiltyard.testing.tally_world import TALLY
from tiltyard.trace import trace_digest, unpack
from tiltyard.worlds.engine import Engine

PLAN = SandboxPlan(files={"notes": "start\n"})
TASK = Task(
    id="tally/write/1",
    world="tally",
    instruction="Write.",
    contracts=(AnswerContract(accept=({"done": True},)),),
    references=(Reference(steps=(Step(submit={"done": True}),)),),
    sandbox=PLAN,
)
SCRIPTS = ("echo one >> notes", "echo two > new; rm notes", "cat new", "echo three >> new")
FILES = ("start\none\n", "two\n", "two\n", "two\nthree\n")
"""What each turn leaves in the one file that is there."""


def policy(view: View) -> Decision:
    if view.turn == len(SCRIPTS):
        return Decision(submit={"done": True})
    return Decision(calls=(Call(tool="shell", arguments={"command": SCRIPTS[view.turn]}),))


@dataclass
class Ground:
    """An episode's pieces, of which the object store and the sandboxes crash."""

    fuse: Fuse
    stored: MemoryObjects = field(default_factory=MemoryObjects)
    boxes: MemorySandboxes = field(default_factory=MemorySandboxes)

    def __post_init__(self) -> None:
        world, self.journal = LocalWorld(Engine({"tally": TALLY}, MemoryWorlds())), MemoryJournal()
        objects: Objects = Crashing(self.stored, self.fuse)
        sandboxes: Sandboxes = Crashing(self.boxes, self.fuse)
        reconciler, self.shelf = Reconciler(world, timedelta(seconds=5)), TaskShelf(self.stored)
        policies, load = MemoryPolicies({"policy": policy}), self.shelf.load
        gateway = Gateway(world, reconciler, sandboxes)
        checkpoints = Checkpoints(sandboxes, reconciler, objects)
        self.leasing = Leasing(world, reconciler, load, self.journal, objects, no_fork, "c", "d")
        self.sandboxing = Sandboxing(sandboxes, reconciler, self.journal, objects, load, "c", "d")
        self.runner = SliceRunner(gateway, checkpoints, self.journal, policies, load)
        closer = SandboxCloser(sandboxes, reconciler, objects)
        self.closer = Closer(world, reconciler, gateway, closer, self.journal, objects, policies, load)

    async def play(self) -> Evidence:
        """One turn a slice; whoever crashes is started again."""
        spec = EpisodeSpec(
            episode_id="e-1",
            task_id=TASK.id,
            task_digest=await self.shelf.store(TASK),
            world="tally",
            policy=PolicySpec(target="policy"),
            limits=TASK.limits,
            sandbox="bubblewrap",
        )
        lease = await self.leasing.lease(LeaseOrder(spec=spec, first_run_id="r"), "w")
        self.generation = lease.generation
        order = ProvisionOrder(spec=spec, first_run_id="r")
        made: Provisioned = await restarted(lambda: self.sandboxing.provision(order, "w"))
        report = await self._turns(spec, lease, made)
        assert report.ending is not None
        close = CloseRequest(spec=spec, lease=lease, ending=report.ending, sandbox=made.sandbox)
        closed = await restarted(lambda: self.closer.close(close))
        return unpack(await self.stored.get(closed.trace)).evidence

    async def _turns(self, spec: EpisodeSpec, lease: LeaseRef, made: Provisioned) -> SliceReport:
        attempts = itertools.count()
        for slice_no in itertools.count():
            request = SliceRequest(
                spec=spec, lease=lease, run_id="r", slice_no=slice_no, seconds=60, max_turns=1, wall_left_s=600,
                sandbox=made.sandbox,
            )  # fmt: skip
            report: SliceReport = await restarted(
                lambda request=request: self.runner.run(request, f"attempt-{next(attempts)}")
            )
            if report.reason == "end":
                return report
        raise AssertionError

    async def files(self, name: str) -> str:
        """What is in the one file that was kept."""
        (entry,) = (await fetch(self.stored, name, start_of(PLAN))).entries
        return (entry.content or b"").decode()


def digest_of(evidence: Evidence) -> str:
    return trace_digest(TASK, evidence.facts, evidence.turns, evidence.ending.end, evidence.sandbox)


async def test_a_crash_at_any_step_of_a_checkpoint_changes_nothing() -> None:
    calm = Ground(Fuse())
    undisturbed = await calm.play()
    assert len([turn for turn in undisturbed.turns if turn.checkpoint]) == len(FILES)
    assert {"before put", "after put", "before get", "after snapshot"} < set(calm.fuse.names)
    for at in range(calm.fuse.steps):
        ground = Ground(Fuse(at))
        evidence = await ground.play()
        where = f"a crash {ground.fuse.names[at]} (step {at}) made a difference"
        assert digest_of(evidence) == digest_of(undisturbed), where
        assert evidence.sandbox is not None
        assert undisturbed.sandbox is not None
        assert evidence.sandbox.changes == undisturbed.sandbox.changes, where
        assert await ground.files(evidence.sandbox.snapshot) == FILES[-1], where
        for turn in evidence.turns:
            assert not turn.checkpoint or await ground.files(turn.checkpoint) == FILES[min(turn.turn, 3)], where
        assert set(ground.boxes.executions.values()) == {1}, where


async def test_the_files_are_kept_anew_where_the_last_checkpoint_is_gone() -> None:
    """A store that has lost an object costs that checkpoint, and no later one."""
    ground, lost = Ground(Fuse()), list[str]()

    class Losing(MemorySandboxes):
        async def call(self, sandbox: SandboxRef, request: SandboxRequest) -> SandboxReply:
            if len(self.executions) == 3:
                saved = [turn.checkpoint for turn in await ground.journal.read("e-1", ground.generation)]
                lost.append(saved[2])
                del ground.stored.contents[saved[2]]
            return await super().call(sandbox, request)

    ground = Ground(Fuse(), boxes=Losing())
    evidence = await ground.play()
    assert lost == [evidence.turns[2].checkpoint]
    assert evidence.sandbox is not None
    assert await ground.files(evidence.turns[3].checkpoint) == FILES[3]
    assert await ground.files(evidence.sandbox.snapshot) == FILES[3]
