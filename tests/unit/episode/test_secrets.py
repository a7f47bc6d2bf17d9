"""I9: nothing that is secret to the grader is in what a policy is given."""

from schemas.base import canonical
from schemas.contract import AnswerContract, CallMatch, ProcessRule, ReceiptContract
from schemas.decision import Call, Decision
from schemas.fault import Fault
from schemas.task import Reference, Step, Task, ViewLimit
from schemas.view import View
from tiltyard.suite import shipped
from tiltyard.testing.memory_worlds import MemoryWorlds
from tiltyard.testing.rehearse import rehearse
from tiltyard.worlds.engine import Engine
from tiltyard.worlds.registry import worlds

MARK = "SECRET-7f3a"


def marked(task: Task) -> Task:
    """The task with a mark in every field that only the grader may see, and views that are soon summarised."""
    contracts = (
        *task.contracts,
        AnswerContract(name=MARK, accept=({"outcome": MARK},), facts=(MARK,)),
        ReceiptContract(name=MARK, tool=MARK),
    )
    rule = ProcessRule(rule="forbid", call=CallMatch(tool=MARK, arguments={"secret": MARK}))
    fault = Fault(tool="get_receipt", kind="error_status", nth=900, code=MARK, message=MARK)
    return task.model_copy(
        update={
            "contracts": contracts,
            "process": (*task.process, rule),
            "references": (Reference(name=MARK, steps=(Step(thought=MARK, submit={"answer": MARK}),)),),
            "faults": (*task.faults, fault),
            "metadata": {"note": MARK},
            "view": ViewLimit(tokens=2_000),
        }
    )


class Curious:
    """Reads everything it may, then submits; keeps every view that it was given."""

    def __init__(self) -> None:
        self.views: list[View] = []

    async def act(self, view: View) -> Decision:
        self.views.append(view)
        reads = [tool.name for tool in view.tools if not tool.writes] * 3
        if view.turn < len(reads):
            return Decision(calls=(Call(tool=reads[view.turn]), Call(tool="help")))
        return Decision(submit={"outcome": "looked"})


async def test_a_view_holds_nothing_of_contracts_references_faults_or_rules() -> None:
    for task in shipped().match(["*/*/1"]):
        curious = Curious()
        await rehearse(marked(task), curious, Engine(worlds(), MemoryWorlds()))
        assert len(curious.views) > 3
        seen = b"".join(canonical(view) for view in curious.views)
        assert curious.views[-1].summary is not None, task.id
        assert MARK.encode() not in seen, task.id


async def test_the_mark_is_found_where_the_instruction_gives_it_away() -> None:
    """The sabotage: a task that tells its secret in the open."""
    (task,) = shipped().match(["replacement/approved/1"])
    curious = Curious()
    leaky = marked(task).model_copy(update={"instruction": f"The answer is {MARK}."})
    await rehearse(leaky, curious, Engine(worlds(), MemoryWorlds()))
    assert MARK.encode() in canonical(curious.views[0])


async def test_a_view_holds_no_id_of_the_episode_and_no_host_or_wall_clock() -> None:
    (task,) = shipped().match(["replacement/approved/1"])
    first, second = Curious(), Curious()
    await rehearse(task, first, Engine(worlds(), MemoryWorlds()), name="e-first")
    await rehearse(task, second, Engine(worlds(), MemoryWorlds()), name="e-second")
    assert [canonical(view) for view in first.views] == [canonical(view) for view in second.views]
    assert b"e-first" not in b"".join(canonical(view) for view in first.views)
