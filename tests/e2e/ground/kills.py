"""Episodes with a long command, and what is killed in its middle."""

import asyncio
import os
import signal

import psutil

from infra.local.stack import look
from ops.cli.on_demand import stack_config
from schemas.base import JsonObject
from schemas.contract import AnswerContract
from schemas.episode import EpisodeResult, EpisodeSpec, PolicySpec
from schemas.evidence import Evidence
from schemas.sandbox import DriverName, SandboxPlan
from schemas.task import Reference, Step, Task
from schemas.world import TemplateRef
from tests.workflow.arena import until
from tiltyard.trace import unpack
from workers.ground import DEFAULT_DRIVER, Ground
from workers.settings import Settings

DONE: JsonObject = {"done": True}
TICKET: JsonObject = {"ticket_id": "K-1", "title": "Kill", "report": "Something will be killed."}
PAUSE_S = f"3.0{os.getpid()}"
"""How long the command lasts that is killed in its middle; by its digits it is found from outside."""

LONG = f"echo line >> log.txt; sleep {PAUSE_S}; cat log.txt"


def killed_task(*commands: str, on_loss: str = "restore") -> Task:
    steps = tuple(Step(tool="shell", arguments={"command": command}) for command in commands)
    return Task(
        id="code-repair/killed/1",
        world="code-repair",
        instruction="Run some commands.",
        template=TemplateRef(params={"tickets": [TICKET]}),
        sandbox=SandboxPlan.model_validate({"files": {"notes.txt": "notes\n"}, "on_loss": on_loss}),
        contracts=(AnswerContract(accept=(DONE,)),),
        references=(Reference(steps=(*steps, Step(submit=DONE))),),
    )


async def begun(ground: Ground, task: Task, driver: DriverName = DEFAULT_DRIVER) -> EpisodeSpec:
    """The task, under way with its reference."""
    spec = await ground.plan(task, PolicySpec(target="reference"), 0, driver)
    await ground.submit([spec])
    return spec


async def outcome(ground: Ground, spec: EpisodeSpec) -> tuple[EpisodeResult, Evidence]:
    result = await asyncio.wait_for(ground.result(spec.episode_id), 120)
    return result, unpack(await ground.objects.get(result.trace)).evidence


async def played(
    ground: Ground, settings: Settings, task: Task, victim: str = "", driver: DriverName = DEFAULT_DRIVER
) -> tuple[EpisodeResult, Evidence]:
    """Run the task by its reference; ``victim`` is killed while its long command is under way."""
    spec = await begun(ground, task, driver)
    if victim:
        await until(is_under_way)
        kill(settings, victim)
    return await outcome(ground, spec)


def is_under_way(pause_s: str = PAUSE_S) -> bool:
    return any(one.info["cmdline"] == ["sleep", pause_s] for one in psutil.process_iter(["cmdline"]))


def kill(settings: Settings, victim: str) -> None:
    """SIGKILL a process of the stack; with ``supervisor`` all of them go."""
    state = look(stack_config(settings).paths)
    assert state is not None
    there = {"supervisor": state.supervisor, **{one.name: one.process for one in state.processes}}
    process = there[victim]
    assert process is not None
    os.kill(process.pid, signal.SIGKILL)
