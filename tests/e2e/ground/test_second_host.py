"""A second host on the same data folder: it takes what the first has no room for, and its end costs no episode."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator

import psutil
import pytest

from infra.local.databases import hosts
from infra.sandboxes.client import HostClient
from schemas.base import JsonObject
from schemas.contract import AnswerContract
from schemas.episode import End, PolicySpec, Validity
from schemas.sandbox import SandboxPlan, SandboxRef
from schemas.task import Reference, Step, Task
from schemas.world import TemplateRef
from tests.workflow.arena import until
from tiltyard.testing.sandbox_bench import SandboxBench
from tiltyard.trace import unpack
from workers.ground import Ground
from workers.settings import Settings

DONE: JsonObject = {"done": True}
TICKET: JsonObject = {"ticket_id": "H-1", "title": "Host", "report": "One of the hosts will be lost."}
PAUSE_S = f"600.0{os.getpid()}"
"""By its digits the command is found from outside."""

COMMANDS = ("echo kept > kept.txt; sleep 2.5", f"sleep {PAUSE_S}", "cat kept.txt")


def moved_task() -> Task:
    steps = tuple(Step(tool="shell", arguments={"command": command}) for command in COMMANDS)
    return Task(
        id="code-repair/moved/1",
        world="code-repair",
        instruction="Run some commands.",
        template=TemplateRef(params={"tickets": [TICKET]}),
        sandbox=SandboxPlan(files={"notes.txt": "notes\n"}),
        contracts=(AnswerContract(accept=(DONE,)),),
        references=(Reference(steps=(*steps, Step(submit=DONE))),),
    )


@pytest.fixture
async def first(settings: Settings) -> AsyncIterator[HostClient]:
    """The stack's own host."""
    async with HostClient(settings.sandboxes_socket) as host:
        offer = await host.offer("bubblewrap")
        if not offer.available:
            pytest.skip(f"{offer.problem}: {offer.fix}")
        yield host


@pytest.fixture
async def second(settings: Settings) -> AsyncIterator[list["subprocess.Popen[bytes]"]]:
    """The two processes of another host, started by hand."""
    environment = {
        "PATH": os.environ["PATH"],
        "TILTYARD_HOME": str(settings.home),
        "TILTYARD_RUNTIME": str(settings.runtime),
        "TILTYARD_TEMPORAL_ADDRESS": settings.temporal_address,
        "TILTYARD_HOST": "second",
        "TILTYARD_SANDBOXES": "1",
        "TILTYARD_OUTAGE_S": "3",
    }
    processes = [
        subprocess.Popen([sys.executable, "-P", "-m", f"workers.{name}"], env=environment)
        for name in ("sandbox_host", "worker")
    ]
    yield processes
    for process in processes:
        process.kill()
        await asyncio.to_thread(process.wait)


async def test_an_episode_outlives_the_host_that_it_was_on(
    ground: Ground, settings: Settings, first: HostClient, second: list["subprocess.Popen[bytes]"]
) -> None:
    impatient = settings.tuning.model_copy(update={"start_s": 1, "outage_s": 3})
    hurried_settings = settings.model_copy(update={"tuning": impatient})
    hurried = Ground(ground.client, ground.records, ground.journal, ground.objects, hurried_settings)
    filling = await _filled(first)
    spec = await hurried.plan(moved_task(), PolicySpec(target="reference"), 0)
    await hurried.submit([spec])
    await until(_command_runs)
    assert [one.capacity.free for one in hosts(settings.home / "records.db", settings.task_queue)] == [0, 0]
    for process in second:
        process.kill()
        await asyncio.to_thread(process.wait)
    for ref in filling:
        await first.release(ref)
    async with asyncio.timeout(90):
        result = await hurried.result(spec.episode_id)
    assert (result.end, result.validity) == (End.SUBMITTED, Validity.VALID), result.reason
    evidence = unpack(await ground.objects.get(result.trace)).evidence
    shown = [one for turn in evidence.turns for one in turn.observations or ()]
    assert shown[1].code == "sandbox_lost"
    assert isinstance(shown[2].content, dict)
    assert shown[2].content["stdout"] == "kept\n"


async def _filled(host: HostClient) -> list[SandboxRef]:
    """Somebody else's sandboxes in all of its slots."""
    bench = SandboxBench(host, "bubblewrap")
    return [await host.provision(bench.order()) for _ in range((await host.capacity()).free)]


def _command_runs() -> bool:
    found = (process.info["cmdline"] or [] for process in psutil.process_iter(["cmdline"]))
    return any(PAUSE_S in words for words in found)
