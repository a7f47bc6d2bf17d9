"""The Docker engine of this machine for tests, and its base image; where there is none, tests skip and say why."""

import os
import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import docker
import pytest

from infra.sandboxes.docker.engine import Engine, connected, problem_of
from infra.sandboxes.docker.images import Images
from infra.sandboxes.docker.launcher import DockerLauncher
from infra.sandboxes.docker.places import FOLDER, LABEL
from infra.sandboxes.host import SandboxHost
from infra.sandboxes.inside import Worlds


@contextmanager
def engine_or_skip() -> Iterator[Engine]:
    if os.geteuid() != 0:
        pytest.skip("only root may mount what Docker sandboxes write to")
    engine = connected()
    try:
        if problem := problem_of(engine):
            pytest.skip(f"no Docker engine answers: {problem}")
        yield engine
    finally:
        engine.close()


@asynccontextmanager
async def docker_host(
    folder: Path,
    images: Path,
    slots: int = 4,
    warm: int = 0,
    worlds: Worlds | None = None,
    runtime: str = "runc",
) -> AsyncIterator[SandboxHost]:
    with engine_or_skip() as engine:
        launcher = DockerLauncher(engine, Images(engine, images), folder / "shared", runtime, warm)
        try:
            async with SandboxHost({"docker": launcher}, folder / "sandboxes", slots, worlds=worlds) as host:
                yield host
        finally:
            launcher.close()


def lend_images(known: Path, folder: Path) -> None:
    """What is known of some images is known in another folder too, so that they are not built again."""
    folder.mkdir(parents=True, exist_ok=True)
    for record in known.glob("*.json"):
        shutil.copy(record, folder)


def containers_of(engine: docker.DockerClient, episode: str) -> list[str]:
    """Names of the containers of one episode, running or not."""
    labels = [f"{LABEL}=sandbox", f"tiltyard.episode={episode}"]
    found = engine.containers.list(all=True, filters={"label": labels})
    return [one.name or "" for one in found]


def containers_below(engine: Engine, folder: Path) -> list[str]:
    """Ids of the containers, running or not, whose own folders are below this one."""
    found = engine.api.containers(all=True, filters={"label": FOLDER})
    return [one["Id"] for one in found if Path(one["Labels"][FOLDER]).is_relative_to(folder.resolve())]


def mounts_below(folder: Path) -> list[str]:
    """Where something is mounted below a folder of the host."""
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    return [line.split()[4] for line in lines if line.split()[4].startswith(str(folder))]
