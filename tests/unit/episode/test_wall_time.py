"""The wall time holds for commands too, and the policy is told before it ends."""

import asyncio
from datetime import timedelta

from schemas.contract import AnswerContract
from schemas.decision import Call, Decision
from schemas.episode import End, EpisodeSpec, PolicySpec
from schemas.evidence import Evidence
from schemas.journal import Writer
from schemas.sandbox import SandboxPlan
from schemas.slice import LeaseRef, SliceRequest
from schemas.start import LeaseOrder, ProvisionOrder
from schemas.task import Limits, Reference, Step, Task
from schemas.view import View
from tests.unit.episode.crashing import no_fork
from tiltyard.episode.delivery import Reconciler
from tiltyard.episode.gateway import Gateway
from tiltyard.episode.leasing import Leasing
from tiltyard.episode.sandboxing import Checkpoints, Sandboxing
from tiltyard.episode.slice_state import begun
from tiltyard.episode.slices import SliceRunner
from tiltyard.episode.tasks import TaskShelf
from tiltyard.testing.local_world import LocalWorld
from tiltyard.testing.memory_journal import MemoryJournal
from tiltyard.testing.memory_objects import MemoryObjects
from tiltyard.testing.memory_policies import MemoryPolicies
from tiltyard.testing.memory_sandboxes import MemorySandboxes
from tiltyard.testing.memory_worlds import MemoryWorlds
from tiltyard.testing.rehearse import rehearse
from tiltyard.testing.tally_world import TALLY
from tiltyard.worlds.engine import Engine


def task(**limits: object) -> Task:
    return Task(
        id="tally/sleep/1",
        world="tally",
        instruction="Sleep.",
        limits=Limits.model_validate(limits),
        contracts=(AnswerContract(accept=({"done": True},)),),
        references=(Reference(steps=(Step(submit={"done": True}),)),),
        sandbox=SandboxPlan(),
    )


def command(script: str) -> Call:
    return Call(tool="shell", arguments={"command": script})


class Sleeper:
    """Sleeps until it is told that its time ends; then it does ``last``."""

    def __init__(self, last: Decision) -> None:
        self.last, self.notices = last, list[str]()

    async def act(self, view: View) -> Decision:
        self.notices.append(view.notice)
        return self.last if view.notice else Decision(calls=(command("echo begun; sleep 60"),))


async def played(policy: Sleeper) -> Evidence:
    return await rehearse(task(wall_s=0.5), policy, Engine({"tally": TALLY}, MemoryWorlds()))


async def test_a_command_past_the_wall_time_leaves_the_policy_its_last_turn() -> None:
    policy = Sleeper(Decision(submit={"done": True}))
    evidence = await played(policy)
    assert evidence.ending.end is End.SUBMITTED, evidence.ending
    assert ["last turn" in notice for notice in policy.notices] == [False, True]
    assert evidence.turns[0].observations is not None
    (shown,) = evidence.turns[0].observations
    assert isinstance(shown.content, dict)
    assert shown.content == {
        "exit_code": None,
        "signal": "SIGKILL",
        "stdout": "begun\n",
        "stderr": "",
        "timed_out": True,
        "cut_short": "the episode's wall time ends",
    }


async def test_the_last_turn_may_use_what_is_left_and_no_more() -> None:
    last = Decision(calls=(command("echo saved > saved"), command("sleep 60"), command("sleep 60")))
    evidence = await played(Sleeper(last))
    assert (evidence.ending.end, evidence.ending.reason) == (End.BUDGET_EXHAUSTED, "wall time")
    assert evidence.sandbox is not None
    assert [change.path for change in evidence.sandbox.changes] == ["saved"]


def test_what_is_kept_back_for_the_last_turn() -> None:
    """Until the policy is told: then commands may have that too."""
    for wall_s, turn_s, kept_s in ((100, 120, 10), (10_000, 120, 120), (10_000, 5, 5)):
        asked = task(wall_s=wall_s, turn_s=turn_s)
        spec = EpisodeSpec(
            episode_id="e", task_id=asked.id, task_digest="", world="tally", policy=PolicySpec(target="p"),
            limits=asked.limits,
        )  # fmt: skip
        for noticed in (False, True):
            request = SliceRequest(
                spec=spec, lease=LeaseRef(namespace="n", generation=1), run_id="r", slice_no=0, seconds=1,
                wall_left_s=wall_s, noticed=noticed,
            )  # fmt: skip
            now = begun(request, Writer(run_id="r", slice_no=0, attempt_id="a"), asked, ())
            assert round(now.wall_left_s - now.command_left_s) == (0 if noticed else kept_s)


async def test_a_command_that_is_sent_again_with_less_time_left_is_the_same() -> None:
    """The worker dies in the command; the next one has less of the wall time, and attaches to what runs."""
    journal, objects, sandboxes = MemoryJournal(), MemoryObjects(), MemorySandboxes()
    world, shelf = LocalWorld(Engine({"tally": TALLY}, MemoryWorlds())), TaskShelf(objects)
    reconciler = Reconciler(world, timedelta(seconds=5))
    asked = task(wall_s=3600)
    spec = EpisodeSpec(
        episode_id="e-1",
        task_id=asked.id,
        task_digest=await shelf.store(asked),
        world="tally",
        policy=PolicySpec(target="policy"),
        limits=asked.limits,
        sandbox="bubblewrap",
    )
    policies = MemoryPolicies({"policy": lambda view: Decision(calls=(command("echo ran >> log; cat log"),))})
    runner = SliceRunner(
        Gateway(world, reconciler, sandboxes),
        Checkpoints(sandboxes, reconciler, objects),
        journal,
        policies,
        shelf.load,
    )
    lease = await Leasing(world, reconciler, shelf.load, journal, objects, no_fork, "c", "d").lease(
        LeaseOrder(spec=spec, first_run_id="r"), "w"
    )
    boxes = Sandboxing(sandboxes, reconciler, journal, objects, shelf.load, "c", "d")
    made = await boxes.provision(ProvisionOrder(spec=spec, first_run_id="r"), "w")
    request = SliceRequest(
        spec=spec, lease=lease, run_id="r", slice_no=0, seconds=60, max_turns=1, wall_left_s=3600,
        sandbox=made.sandbox,
    )  # fmt: skip
    sandboxes.ending.shut()
    first = asyncio.create_task(runner.run(request, "first"))
    await sandboxes.ending.reached.wait()
    first.cancel()
    await asyncio.wait([first])
    second = asyncio.create_task(runner.run(request.model_copy(update={"wall_left_s": 125.0}), "second"))
    sandboxes.ending.open()
    await second
    turn = (await journal.read("e-1", lease.generation))[0]
    assert turn.observations is not None
    assert turn.observations[0].content == {"exit_code": 0, "stdout": "ran\n", "stderr": ""}
    assert set(sandboxes.executions.values()) == {1}
