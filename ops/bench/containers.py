"""Docker's sandboxes all the way from a worker, against the bare engine in the same run."""

import itertools
import shutil
import subprocess
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import docker
import psutil
from docker.models.containers import Container

from infra.local.stack import Say
from infra.sandboxes import records
from infra.sandboxes.client import HostClient
from infra.sandboxes.docker.engine import connected
from infra.sandboxes.docker.places import LABEL
from infra.sandboxes.records import folder_of
from ops.bench.figures import Figure, Measure, Target, interleaved, timed, timed_call
from ops.bench.stack import stack
from schemas.sandbox import ExecRequest, SandboxOrder, SandboxRef
from schemas.world import Owner
from tiltyard.errors import EnvironmentFailed
from tiltyard.ports import Sandboxes

MADE, CALLED = 30, 200
"""How often a container is made, and a command run."""

IDLE = 3
"""Sandboxes whose memory is looked at."""

WITHIN_S = 60.0
MIB = 2**20
TRUE = "/bin/true"

OURS: dict[str, Any] = {"Cmd": ["/usr/bin/sleep", "3600"], "Labels": {LABEL: "bench"}}
"""Of every bare container: no supervisor, and no label by which it could be taken for a sandbox that was left."""

NOT_HERE = "there is no `docker` program to compare with"

EXEC = Target(most=0.1, judged_from=CALLED)
CREATE = Target(most=1.3, judged_from=MADE)


async def measure(most: int, say: Say) -> list[Figure]:
    """Making sandboxes, running commands in one, and what an idle one has in memory."""
    async with stack(say) as ours, HostClient(ours.settings.sandboxes_socket) as host:
        why_not = await ours.unavailable("docker") or ("" if shutil.which("docker") else NOT_HERE)
        if why_not:
            return [Figure(what="sandboxes of Docker's", skipped=why_not)]
        say("making the first sandbox: its image is built")
        with closing(connected()) as engine:
            return await measured(Yard(host, ours.settings.sandboxes, engine), most)


async def measured(yard: "Yard", most: int) -> list[Figure]:
    """All figures of a yard."""
    async with yard.sandbox() as model:
        made = await _made(yard, model, min(MADE, most))
        called = await _called(yard, model, min(CALLED, most))
    return [*made, *called, await _memory(yard)]


@dataclass
class Yard:
    """A host of Docker's sandboxes with its folder, and the engine beside it."""

    host: Sandboxes
    folder: Path
    engine: docker.DockerClient
    numbers: "itertools.count[int]" = field(default_factory=itertools.count)

    def order(self) -> SandboxOrder:
        """An order of a sandbox that nobody has asked for yet."""
        name = f"bench-{next(self.numbers)}"
        owner = Owner(cluster="bench", temporal_namespace="default", workflow_id=name, first_run_id=name)
        return SandboxOrder(driver="docker", name=name, incarnation=1, owner=owner, episode_id=name)

    @asynccontextmanager
    async def sandbox(self) -> AsyncIterator[SandboxRef]:
        """One that is released afterwards."""
        box = await self.host.provision(self.order())
        try:
            yield box
        finally:
            await self.host.release(box)

    def container(self, box: SandboxRef) -> dict[str, Any]:
        """What the engine says of a sandbox's container."""
        kept = dict(records.found(self.folder))[folder_of(self.folder, box)]
        if kept is None:
            raise EnvironmentFailed(f"the benchmark's sandbox {box.name} has no record")
        about: dict[str, Any] = self.engine.api.inspect_container(str(kept.identity["container"]))
        return about


async def _made(yard: Yard, model: SandboxRef, rounds: int) -> list[Figure]:
    """The bare engine gets the very options of the driver's container, and something small to run."""
    about = yard.container(model)
    image, plain = about["Image"], {"Image": about["Image"], **OURS}
    alike = {**about["Config"], "HostConfig": about["HostConfig"], **OURS}
    series = await interleaved(
        {
            "run": timed_call(lambda: _docker("run", "--rm", image, TRUE)),
            "plain": _bare(yard.engine, plain),
            "alike": _bare(yard.engine, alike),
            "fresh": _provisioned(yard),
        },
        rounds,
    )
    run = Figure.of(
        "bare `docker run --rm IMAGE true`", series["run"], note=f"Docker {yard.engine.version()['Version']}"
    )
    plainly = Figure.of("bare create and start, no options", series["plain"])
    same = Figure.of("bare create and start, the same options", series["alike"])
    fresh = Figure.of("a fresh sandbox", series["fresh"])
    return [run, plainly.over(run), same.over(run), fresh.over(same, CREATE)]


def _bare(engine: docker.DockerClient, config: dict[str, Any]) -> Measure:
    """Create and start a container; its removal is not counted."""

    async def measure() -> float:
        began = time.perf_counter()
        made = engine.api.create_container_from_config(config)["Id"]  # type: ignore[no-untyped-call]  # the stubs lack it
        try:
            engine.api.start(made)
            return time.perf_counter() - began
        finally:
            engine.api.remove_container(made, force=True, v=True)

    return measure


def _provisioned(yard: Yard) -> Measure:
    """Provision a sandbox; its release is not counted."""

    async def measure() -> float:
        order, began = yard.order(), time.perf_counter()
        box = await yard.host.provision(order)
        took = time.perf_counter() - began
        await yard.host.release(box)
        return took

    return measure


async def _called(yard: Yard, model: SandboxRef, rounds: int) -> list[Figure]:
    container = yard.engine.containers.get(yard.container(model)["Id"])
    series = await interleaved(
        {
            "program": timed_call(lambda: _docker("exec", container.id or "", TRUE)),
            "library": timed_call(lambda: _exec_run(container)),
            "ours": _command(yard, model),
        },
        rounds,
    )
    bare = Figure.of(f"{TRUE} by `docker exec`", series["program"])
    library = Figure.of(f"{TRUE} by the library's `exec_run`", series["library"])
    return [bare, library.over(bare), Figure.of(f"{TRUE} in a sandbox", series["ours"]).over(bare, EXEC)]


def _command(yard: Yard, box: SandboxRef) -> Measure:
    async def run() -> None:
        request = ExecRequest(op_id=f"true-{next(yard.numbers)}", argv=(TRUE,), timeout_s=WITHIN_S)
        reply = await yard.host.call(box, request)
        if reply.exec is None or reply.exec.exit_code != 0:
            raise EnvironmentFailed(f"{TRUE} did not run: {reply.code} {reply.message}")

    return timed(run)


def _docker(*arguments: str) -> None:
    subprocess.run(["docker", *arguments], stdin=subprocess.DEVNULL, capture_output=True, check=True)


def _exec_run(container: Container) -> None:
    if container.exec_run([TRUE]).exit_code != 0:
        raise EnvironmentFailed(f"{TRUE} did not run in a container")


async def _memory(yard: Yard) -> Figure:
    """Of idle sandboxes: the supervisor, and the engine's process that watches its container."""
    async with AsyncExitStack() as made:
        boxes = [await made.enter_async_context(yard.sandbox()) for _ in range(IDLE)]
        firsts = [psutil.Process(yard.container(box)["State"]["Pid"]) for box in boxes]
        own = [first.memory_info().rss / MIB for first in firsts]
        engines = [_of_parent(first) / MIB for first in firsts]
    note = f"the supervisor {min(own):.1f} MiB, the engine's process for it {min(engines):.1f} MiB"
    whole = list(map(sum, zip(own, engines, strict=True)))
    return Figure.of("resident memory of an idle sandbox", whole, scale=1, unit="MiB", note=note)


def _of_parent(process: psutil.Process) -> int:
    parent = process.parent()
    return 0 if parent is None else int(parent.memory_info().rss)
