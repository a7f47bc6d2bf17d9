"""A task's marked files: an episode tells who opened one, and the policy is not told which they are (I9)."""

from schemas.base import canonical
from schemas.decision import Call, Decision
from schemas.sandbox import SandboxPlan, SandboxRef
from schemas.task import Task
from schemas.view import View
from tiltyard.suite import shipped
from tiltyard.testing.memory_sandboxes import MemorySandboxes
from tiltyard.testing.memory_worlds import MemoryWorlds
from tiltyard.testing.rehearse import rehearse
from tiltyard.worlds.engine import Engine
from tiltyard.worlds.registry import worlds

PLAN = SandboxPlan(files={"key.txt": "17\n", "notes.txt": "none\n"}, marked=("key.txt",))


def task_with(plan: SandboxPlan) -> Task:
    (task,) = shipped().match(["code-repair/repair/1"])
    return task.model_copy(update={"sandbox": plan})


class Plays:
    """Calls one tool a turn, then submits; keeps every view that it was given."""

    def __init__(self, *calls: Call) -> None:
        self.calls, self.views = calls, list[View]()

    async def act(self, view: View) -> Decision:
        self.views.append(view)
        left = self.calls[view.turn :]
        return Decision(calls=left[:1]) if left else Decision(submit={"outcome": "looked"})


LOOKS = (
    Call(tool="shell", arguments={"command": "ls && cat notes.txt"}),
    Call(tool="read_file", arguments={"path": "notes.txt"}),
)
OPENS = (
    *LOOKS,
    Call(tool="shell", arguments={"command": "cat key.txt"}),
    Call(tool="read_file", arguments={"path": "key.txt"}),
)


async def test_reads_of_marked_files_are_in_the_evidence_with_their_calls() -> None:
    evidence = await rehearse(task_with(PLAN), Plays(*OPENS), Engine(worlds(), MemoryWorlds()), name="e")
    assert evidence.sandbox is not None
    told = [(one.path, one.op_id.rsplit("/", 2)[1:]) for one in evidence.sandbox.facts.marked_reads]
    assert told == [("key.txt", ["2", "0"]), ("key.txt", ["3", "0"])]


async def test_who_opens_none_is_told_of_none() -> None:
    evidence = await rehearse(task_with(PLAN), Plays(*LOOKS), Engine(worlds(), MemoryWorlds()))
    assert evidence.sandbox is not None
    assert evidence.sandbox.facts.marked_reads == ()


async def test_a_policy_is_given_the_same_whatever_is_marked() -> None:
    views = []
    for plan in (PLAN, PLAN.model_copy(update={"marked": ()})):
        policy = Plays(*OPENS)
        await rehearse(task_with(plan), policy, Engine(worlds(), MemoryWorlds()))
        views.append([canonical(view) for view in policy.views])
    assert views[0] == views[1]


class LostAtTheEnd(MemorySandboxes):
    async def seal(self, sandbox: SandboxRef) -> None:
        self.lose(sandbox.name)
        await super().seal(sandbox)


async def test_a_lost_sandbox_leaves_what_it_had_written_down() -> None:
    """Lost after the last turn, when its files had been kept."""
    engine = Engine(worlds(), MemoryWorlds())
    evidence = await rehearse(task_with(PLAN), Plays(*OPENS), engine, sandboxes=LostAtTheEnd())
    assert evidence.sandbox is not None
    assert (evidence.sandbox.lost, evidence.sandbox.facts.from_journal) == (True, True)
    assert [one.path for one in evidence.sandbox.facts.marked_reads] == ["key.txt", "key.txt"]
    assert [one.ended for one in evidence.sandbox.facts.commands] == [True] * 4
