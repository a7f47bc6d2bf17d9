"""Equal calls in a row end an episode as stalled: five of a tool of the world, thirty of one of the sandbox."""

import pytest

from schemas.contract import AnswerContract
from schemas.decision import Call, Decision
from schemas.episode import End
from schemas.sandbox import SandboxPlan
from schemas.task import Limits, Reference, Step, Task
from schemas.view import View
from tiltyard.episode.progress import STALL_CALLS, STALL_COMMANDS
from tiltyard.testing.memory_worlds import MemoryWorlds
from tiltyard.testing.rehearse import rehearse
from tiltyard.testing.tally_world import TALLY
from tiltyard.worlds.engine import Engine

TASK = Task(
    id="tally/look/1",
    world="tally",
    instruction="Look at the apples.",
    limits=Limits(turns=100),
    contracts=(AnswerContract(accept=({"done": True},)),),
    references=(Reference(steps=(Step(submit={"done": True}),)),),
    sandbox=SandboxPlan(files={"log": "begun\n"}),
)
READ = Call(tool="read", arguments={"name": "apples"})
COMMAND = Call(tool="shell", arguments={"command": "cat log"})
LOOK = Call(tool="read_file", arguments={"path": "log"})
OTHER = Call(tool="shell", arguments={"command": "true"})
SUBMIT = Decision(submit={"done": True})


class Plan:
    """These calls, one a turn, and then the submission."""

    def __init__(self, *calls: Call) -> None:
        self.calls = calls

    async def act(self, view: View) -> Decision:
        return Decision(calls=(self.calls[view.turn],)) if view.turn < len(self.calls) else SUBMIT


async def end_of(*calls: Call, **changes: object) -> tuple[End, str]:
    ending = (await rehearse(changed(**changes), Plan(*calls), Engine({"tally": TALLY}, MemoryWorlds()))).ending
    return ending.end, ending.reason


def changed(**changes: object) -> Task:
    return Task.model_validate({**TASK.model_dump(), **changes})


@pytest.mark.parametrize(
    ("call", "limit"), [(READ, 5), (COMMAND, 30), (LOOK, 30)], ids=["world", "command", "file"]
)
async def test_the_last_equal_call_that_is_let_pass(call: Call, limit: int) -> None:
    assert (STALL_CALLS, STALL_COMMANDS) == (5, 30)
    assert await end_of(*[call] * (limit - 1)) == (End.SUBMITTED, "")
    assert await end_of(*[call] * limit) == (
        End.STALLED,
        f"{limit} calls of {call.tool} with unchanged arguments",
    )


async def test_calls_in_one_turn_count_each() -> None:
    class Many:
        async def act(self, view: View) -> Decision:
            return Decision(calls=(COMMAND,) * 30) if view.turn == 0 else SUBMIT

    assert (await rehearse(TASK, Many(), Engine({"tally": TALLY}, MemoryWorlds()))).ending.end is End.STALLED


@pytest.mark.parametrize(
    "between",
    [OTHER, READ, Call(tool="shell", arguments={"command": "cat log", "timeout_s": 5})],
    ids=["another command", "another tool", "other arguments"],
)
async def test_anything_else_between_begins_anew(between: Call) -> None:
    assert (await end_of(*[COMMAND] * 29, between, *[COMMAND] * 29))[0] is End.SUBMITTED


async def test_what_a_command_prints_does_not_count() -> None:
    """A command may print the time, or how long it took: equal decisions would end otherwise each time (I7)."""
    grows = Call(tool="shell", arguments={"command": "echo more >> log; cat log"})
    assert (await end_of(*[grows] * 30))[0] is End.STALLED


@pytest.mark.parametrize(("call", "limit"), [(READ, 5), (COMMAND, 30)], ids=["world", "command"])
async def test_polling_is_what_the_task_says(call: Call, limit: int) -> None:
    assert (await end_of(*[call] * limit, polling_tools=(call.tool,)))[0] is End.SUBMITTED
    assert (await end_of(*[call] * limit, polling_tools=("write_file",)))[0] is End.STALLED
