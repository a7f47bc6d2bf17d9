"""What a person says is the answer to the question that was asked, whatever crashes while it is told."""

import itertools
from datetime import timedelta

from schemas.contract import AnswerContract
from schemas.decision import Decision
from schemas.episode import End, EpisodeSpec, PolicySpec
from schemas.slice import CallRef, SliceReport, SliceRequest
from schemas.start import LeaseOrder
from schemas.task import Reference, Step, Task
from schemas.view import View
from tests.unit.episode.crashing import Crashing, Fuse, no_fork, restarted
from tiltyard.episode.delivery import Reconciler
from tiltyard.episode.gateway import Gateway
from tiltyard.episode.leasing import Leasing
from tiltyard.episode.sandboxing import Checkpoints
from tiltyard.episode.slices import SliceRunner
from tiltyard.episode.tasks import TaskShelf
from tiltyard.testing.local_world import LocalWorld
from tiltyard.testing.memory_journal import MemoryJournal
from tiltyard.testing.memory_objects import MemoryObjects
from tiltyard.testing.memory_policies import MemoryPolicies
from tiltyard.testing.memory_sandboxes import MemorySandboxes
from tiltyard.testing.memory_worlds import MemoryWorlds
from tiltyard.testing.tally_world import TALLY
from tiltyard.worlds.engine import Engine

TASK = Task(
    id="tally/ask/1",
    world="tally",
    instruction="Ask twice.",
    contracts=(AnswerContract(accept=({"said": ["red", "blue"]},)),),
    references=(Reference(steps=(Step(submit={}),)),),
)
REPLIES = {"Which colour?": "red", "And which one else?": "blue"}


def twice(view: View) -> Decision:
    if view.turn < len(REPLIES):
        return Decision(ask=list(REPLIES)[view.turn])
    return Decision(submit={"said": [turn.observations[0].content for turn in view.transcript]})


async def episode(fuse: Fuse) -> tuple[list[object], list[str]]:
    """(what the policy was answered, what was asked), with the person that has ``REPLIES``."""
    objects = MemoryObjects()
    shelf = TaskShelf(objects)
    kept = MemoryJournal()
    world = LocalWorld(Engine({"tally": TALLY}, MemoryWorlds()))
    reconciler = Reconciler(world, timedelta(seconds=5))
    gateway = Gateway(world, reconciler, MemorySandboxes())
    checkpoints = Checkpoints(MemorySandboxes(), reconciler, objects)
    runner = SliceRunner(gateway, checkpoints, Crashing(kept, fuse), MemoryPolicies({"twice": twice}), shelf.load)
    spec = EpisodeSpec(
        episode_id="e-1",
        task_id=TASK.id,
        task_digest=await shelf.store(TASK),
        world="tally",
        policy=PolicySpec(target="twice"),
        limits=TASK.limits,
    )
    order = LeaseOrder(spec=spec, first_run_id="run-1")
    leasing = Leasing(world, reconciler, shelf.load, kept, objects, no_fork, "cluster", "default")
    lease = await leasing.lease(order, "episode/e-1")
    asked: list[str] = []
    attempts = (f"attempt-{number}" for number in itertools.count())
    answer: str | None = None
    waited: CallRef | None = None
    for slice_no in range(9):
        request = SliceRequest(
            spec=spec,
            lease=lease,
            run_id="run-1",
            slice_no=slice_no,
            seconds=60,
            wall_left_s=600,
            answered=bool(asked),
            answer=answer,
            waited=waited,
        )
        report: SliceReport = await restarted(lambda request=request: runner.run(request, next(attempts)))
        if report.ending is not None:
            assert report.ending.end is End.SUBMITTED
            turns = await kept.read("e-1", lease.generation)
            return [one.content for turn in turns for one in turn.observations or ()], asked
        asked.append(report.question)
        answer, waited = REPLIES[report.question], report.waiting_for
    raise AssertionError("it does not end")


async def test_a_crash_at_any_step_gives_no_answer_to_another_question() -> None:
    calm = Fuse()
    assert await episode(calm) == (["red", "blue"], list(REPLIES))
    for at in range(calm.steps):
        fuse = Fuse(at)
        answers, asked = await episode(fuse)
        assert (answers, asked) == (["red", "blue"], list(REPLIES)), f"a crash {fuse.names[at]} (step {at})"
