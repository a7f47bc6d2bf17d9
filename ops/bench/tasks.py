"""The tasks that whole stacks are measured with: ten short calls in ten turns, with a sandbox or without."""

from schemas.base import JsonObject, JsonValue
from schemas.contract import AnswerContract
from schemas.sandbox import Isolation, SandboxPlan
from schemas.task import Limits, Reference, Step, Task
from schemas.world import TemplateRef

CALLS = 10

DONE: JsonObject = {"outcome": "counted"}
TICKET: JsonObject = {"ticket_id": "B-1", "title": "Count", "report": "Count the lines of the notes."}


def with_commands(isolation: Isolation = "fresh") -> Task:
    """Each turn runs one command, which starts a shell and a program, and changes a file."""
    steps = (
        Step(tool="shell", arguments={"command": f"echo line {number} >> notes.txt; cat notes.txt"})
        for number in range(CALLS)
    )
    plan = SandboxPlan(files={"notes.txt": "notes\n"}, isolation=isolation)
    return _task("commands", tuple(steps), plan)


def many_commands(turns: int, files: int, *, changes: bool) -> Task:
    """So many turns with a command each, which adds a line to one of so many files, or only reads it."""
    command = "echo line {} >> 7.txt" if changes else ": {}; cat 7.txt"
    steps = (Step(tool="shell", arguments={"command": command.format(number)}) for number in range(turns))
    plan = SandboxPlan(files={f"{number}.txt": "notes\n" for number in range(files)})
    limits = Limits(turns=turns + 10, tool_calls=turns + 10)
    return _task(f"many-{turns}", tuple(steps), plan).model_copy(update={"limits": limits})


def many_writes(turns: int) -> Task:
    """So many turns, each of which closes another ticket."""
    tickets: list[JsonValue] = [{**TICKET, "ticket_id": f"B-{number}"} for number in range(turns)]
    steps = (
        Step(tool="close_ticket", arguments={"ticket_id": f"B-{number}", "summary": "counted"})
        for number in range(turns)
    )
    changes = {
        "limits": Limits(turns=turns + 10, tool_calls=turns + 10),
        "template": TemplateRef(params={"tickets": tickets}),
    }
    return _task(f"writes-{turns}", tuple(steps), None).model_copy(update=changes)


def without_sandbox() -> Task:
    """Each turn asks the world for the same ticket."""
    step = Step(tool="get_ticket", arguments={"ticket_id": TICKET["ticket_id"]})
    return _task("calls", (step,) * CALLS, None)


def _task(name: str, steps: tuple[Step, ...], sandbox: SandboxPlan | None) -> Task:
    return Task(
        id=f"code-repair/bench/{name}",
        world="code-repair",
        instruction="Do ten small things, one a turn.",
        template=TemplateRef(params={"tickets": [TICKET]}),
        polling_tools=("get_ticket",),
        contracts=(AnswerContract(accept=(DONE,)),),
        references=(Reference(steps=(*steps, Step(submit=DONE))),),
        sandbox=sandbox,
    )
