"""Docker's sandboxes against the bare engine in the same run: made, taken from those that wait, used, reset."""

import shutil
import subprocess
import time
from contextlib import AsyncExitStack, closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import docker
import psutil
from docker.models.containers import Container

from infra.local.stack import Say
from infra.sandboxes.docker.engine import connected
from infra.sandboxes.docker.images import Images
from infra.sandboxes.docker.launcher import DockerLauncher
from infra.sandboxes.docker.places import LABEL
from ops.bench.figures import Figure, Measure, Target, interleaved, timed, timed_call
from ops.bench.yards import Yard, yard
from schemas.sandbox import BASE_IMAGE, SandboxRef
from tiltyard.errors import EnvironmentFailed

MADE, CALLED = 30, 200
"""How often a container is made, and a command run."""

WARM, IDLE = 4, 3
"""How many containers may wait, and of how many the memory is looked at."""

MIB = 2**20
TRUE = "/bin/true"

OURS: dict[str, Any] = {"Cmd": ["/usr/bin/sleep", "3600"], "Labels": {LABEL: "bench"}}
"""Of every bare container: no supervisor, and no label by which it could be taken for a sandbox that was left."""

USE = "cd /work; for place in /work /tmp /dev/shm; do seq 20000 > $place/file; done; sleep 3600 & echo left"
"""What a sandbox is used for before it is reset: files in every place, and a process that does not end."""

NOT_HERE = "there is no `docker` program to compare with"

ACQUIRE = Target(most=0.15, judged_from=MADE)
RESET = Target(most=0.2, judged_from=MADE)
CREATE = Target(most=1.3, judged_from=MADE)
EXEC = Target(most=0.1, judged_from=CALLED)


async def measure(most: int, say: Say) -> list[Figure]:
    """All of it, with an image that is built for it."""
    with TemporaryDirectory(prefix="tiltyard-bench-") as place, closing(connected()) as engine:
        folder, images = Path(place), Path(place) / "images"
        offer = DockerLauncher(engine, Images(engine, images), folder).offer()
        if not offer.available or not shutil.which("docker"):
            why_not = f"{offer.problem}; {offer.fix}" if not offer.available else NOT_HERE
            return [Figure(what="sandboxes of Docker's", skipped=why_not)]
        Images(engine, images, say).get(BASE_IMAGE)
        return await measured(folder, images, most)


async def measured(folder: Path, images: Path, most: int) -> list[Figure]:
    """The figures, with hosts in ``folder`` and an image that ``images`` knows."""
    async with (
        yard(folder / "cold", images, "fresh", 0) as cold,
        yard(folder / "warm", images, "reset", WARM) as warm,
        cold.sandbox() as model,
    ):
        made = await _made(cold, warm, model, min(MADE, most))
        called = await _called(cold, model, min(CALLED, most))
        return [*made, *called, await _memory(cold)]


async def _made(cold: Yard, warm: Yard, model: SandboxRef, rounds: int) -> list[Figure]:
    """The bare engine gets the very options of the driver's container, and something small to run."""
    about = cold.container(model)
    image, plain = about["Image"], {"Image": about["Image"], **OURS}
    alike = {**about["Config"], "HostConfig": about["HostConfig"], **OURS}
    acquired = _Acquired(warm)
    series = await interleaved(
        {
            "run": timed_call(lambda: _docker("run", "--rm", image, TRUE)),
            "plain": _bare(cold.engine, plain),
            "alike": _bare(cold.engine, alike),
            "fresh": _Acquired(cold).measure,
            "warm": acquired.measure,
            "reset": _reset(warm),
        },
        rounds,
    )
    figures = {name: Figure.of(what, series[name]) for name, what in MAKING.items()}
    run, alone = figures["run"], figures["alike"]
    return [
        run.model_copy(update={"note": f"Docker {cold.engine.version()['Version']}"}),
        figures["plain"].over(run),
        alone.over(run),
        figures["fresh"].over(alone, CREATE),
        figures["warm"].over(run, ACQUIRE).model_copy(update={"note": acquired.note}),
        figures["reset"].over(run, RESET),
    ]


MAKING = {
    "run": "bare `docker run --rm IMAGE true`",
    "plain": "bare create and start, no options",
    "alike": "bare create and start, the same options",
    "fresh": "a fresh sandbox",
    "warm": "a sandbox from those that wait",
    "reset": "seal, drain and reset of a used one, with proof",
}


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


class _Acquired:
    """Measures a provision; the end of the sandbox is not counted."""

    def __init__(self, place: Yard) -> None:
        self._place = place
        self._count = self._used = 0

    async def measure(self) -> float:
        began = time.perf_counter()
        box = await self._place.provision()
        took = time.perf_counter() - began
        self._count += 1
        self._used += self._place.member(box).served > 0
        await self._place.close(box)
        return took

    @property
    def note(self) -> str:
        return f"{self._used} of {self._count} were sandboxes before"


def _reset(warm: Yard) -> Measure:
    """Measures the end of a sandbox that was used; what makes and uses it is not counted."""

    async def measure() -> float:
        box = await warm.provision()
        await warm.run(box, "/bin/sh", "-c", USE)
        began = time.perf_counter()
        await warm.close(box)
        return time.perf_counter() - began

    return measure


async def _called(cold: Yard, model: SandboxRef, rounds: int) -> list[Figure]:
    container = cold.engine.containers.get(cold.container(model)["Id"])
    series = await interleaved(
        {
            "program": timed_call(lambda: _docker("exec", container.id or "", TRUE)),
            "library": timed_call(lambda: _exec_run(container)),
            "ours": timed(lambda: cold.run(model, TRUE)),
        },
        rounds,
    )
    bare = Figure.of(f"{TRUE} by `docker exec`", series["program"])
    library = Figure.of(f"{TRUE} by the library's `exec_run`", series["library"])
    return [bare, library.over(bare), Figure.of(f"{TRUE} in a sandbox", series["ours"]).over(bare, EXEC)]


def _docker(*arguments: str) -> None:
    subprocess.run(["docker", *arguments], stdin=subprocess.DEVNULL, capture_output=True, check=True)


def _exec_run(container: Container) -> None:
    if container.exec_run([TRUE]).exit_code != 0:
        raise EnvironmentFailed(f"{TRUE} did not run in a container")


async def _memory(cold: Yard) -> Figure:
    """Of idle sandboxes: the supervisor, and the engine's process that watches its container."""
    async with AsyncExitStack() as made:
        boxes = [await made.enter_async_context(cold.sandbox()) for _ in range(IDLE)]
        firsts = [psutil.Process(cold.container(box)["State"]["Pid"]) for box in boxes]
        own = [first.memory_info().rss / MIB for first in firsts]
        engines = [_of_parent(first) / MIB for first in firsts]
    note = f"the supervisor {min(own):.1f} MiB, the engine's process for it {min(engines):.1f} MiB"
    whole = list(map(sum, zip(own, engines, strict=True)))
    return Figure.of("resident memory of an idle sandbox", whole, scale=1, unit="MiB", note=note)


def _of_parent(process: psutil.Process) -> int:
    parent = process.parent()
    return 0 if parent is None else int(parent.memory_info().rss)
