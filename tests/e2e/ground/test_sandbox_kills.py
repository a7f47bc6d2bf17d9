"""SIGKILL in the middle of a command: of the worker, and of the host of the sandbox."""

import asyncio
import os
import signal

import psutil
import pytest

from infra.local.stack import look
from infra.sandboxes.client import HostClient
from ops.cli.on_demand import stack_config
from schemas.base import JsonObject
from schemas.contract import AnswerContract
from schemas.episode import End, EpisodeResult, PolicySpec, Validity
from schemas.evidence import Evidence
from schemas.sandbox import SandboxPlan
from schemas.task import Reference, Step, Task
from schemas.world import TemplateRef
from tests.workflow.arena import until
from tiltyard.trace import unpack
from workers.ground import Ground
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


@pytest.fixture(autouse=True)
async def _works_here(settings: Settings) -> None:
    async with HostClient(settings.sandboxes_socket) as sandboxes:
        offer = await sandboxes.offer("bubblewrap")
    if not offer.available:
        pytest.skip(f"{offer.problem}: {offer.fix}")


async def played(
    ground: Ground, settings: Settings, task: Task, victim: str = ""
) -> tuple[EpisodeResult, Evidence]:
    """Run the task by its reference; ``victim`` is killed while its long command is under way."""
    spec = await ground.plan(task, PolicySpec(target="reference"), 0)
    await ground.submit([spec])
    if victim:
        await until(_is_under_way)
        _kill(settings, victim)
    result = await asyncio.wait_for(ground.result(spec.episode_id), 120)
    return result, unpack(await ground.objects.get(result.trace)).evidence


def _is_under_way() -> bool:
    return any(one.info["cmdline"] == ["sleep", PAUSE_S] for one in psutil.process_iter(["cmdline"]))


def _kill(settings: Settings, victim: str) -> None:
    state = look(stack_config(settings).paths)
    assert state is not None
    (process,) = [one.process for one in state.processes if one.name == victim]
    assert process is not None
    os.kill(process.pid, signal.SIGKILL)


async def test_a_killed_worker_runs_no_command_twice(ground: Ground, settings: Settings) -> None:
    task = killed_task(LONG)
    calm, _ = await played(ground, settings, task)
    result, evidence = await played(ground, settings, task, "worker")
    assert (result.end, result.validity) == (End.SUBMITTED, Validity.VALID)
    assert result.digests.trace == calm.digests.trace
    assert evidence.turns[0].observations is not None
    assert evidence.turns[0].observations[0].content == {"exit_code": 0, "stdout": "line\n", "stderr": ""}
    assert evidence.sandbox is not None
    assert [(one.started, one.ended) for one in evidence.sandbox.facts.commands] == [(True, True)]


async def test_a_killed_host_costs_the_processes_and_not_the_work(ground: Ground, settings: Settings) -> None:
    """The first command outlasts a slice, so its files are kept; the second is under way when the host dies."""
    task = killed_task("echo kept > kept.txt; sleep 2.5", LONG, "cat kept.txt; ls")
    result, evidence = await played(ground, settings, task, "sandboxes")
    assert (result.end, result.validity) == (End.SUBMITTED, Validity.VALID), result.reason
    shown = [one for turn in evidence.turns for one in turn.observations or ()]
    assert shown[1].code == "sandbox_lost"
    assert "after turn 0" in shown[1].message
    assert isinstance(shown[2].content, dict)
    assert shown[2].content["stdout"] == "kept\nkept.txt\nnotes.txt\n", "no log: it is never run again"
    assert evidence.sandbox is not None
    assert evidence.sandbox.facts.incarnation == 2


async def test_a_task_may_rather_end(ground: Ground, settings: Settings) -> None:
    result, _ = await played(ground, settings, killed_task(LONG, on_loss="environment_error"), "sandboxes")
    assert (result.end, result.validity) == (End.ENVIRONMENT_ERROR, Validity.ENVIRONMENT)
    async with HostClient(settings.sandboxes_socket) as sandboxes:
        await until(lambda: _none(sandboxes))


async def _none(sandboxes: HostClient) -> bool:
    return await sandboxes.sandboxes() == ()
