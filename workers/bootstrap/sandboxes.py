"""The sandbox host's drivers."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path

from infra.local.hold import FolderHold
from infra.sandboxes.bubblewrap import BubblewrapLauncher
from infra.sandboxes.docker.places import CONTAINERS
from infra.sandboxes.host import SandboxHost
from infra.sandboxes.inside import Worlds
from infra.sandboxes.late import Closable, LateLauncher
from infra.sandboxes.launching import Launcher
from infra.sandboxes.unsafe_local import UnsafeLocalLauncher
from schemas.sandbox import DriverName
from tiltyard.episode.delivery import Reconciler
from tiltyard.errors import StackFailed
from tiltyard.sandbox.service import WorldService
from workers.settings import Settings

ATTEMPT = timedelta(seconds=5)
"""How long a call from inside a sandbox is sent again before those who wait for it are given more time."""

LINE_S, PAUSE_S = 10.0, 0.05
"""How long a host waits for the one before it, which may have been killed a moment ago."""


@contextmanager
def open_launchers(
    stage: Path, images: Path, runtime: str = "runc", warm: int = 0
) -> Iterator[dict[DriverName, Launcher]]:
    """Every driver. ``stage`` is a folder for what their sandboxes share, ``images`` keeps Docker's images, whose
    containers are run with ``runtime``, and of which ``warm`` may wait."""
    bubblewrap = BubblewrapLauncher(stage / "bubblewrap")
    own = stage / "docker"
    docker = LateLauncher("docker", partial(_docker, own, images, runtime, warm), own / CONTAINERS)
    try:
        yield {"bubblewrap": bubblewrap, "docker": docker, "unsafe-local": UnsafeLocalLauncher()}
    finally:
        docker.close()
        bubblewrap.close()


def _docker(stage: Path, images: Path, runtime: str, warm: int) -> Closable:
    from infra.sandboxes.docker.engine import connected
    from infra.sandboxes.docker.images import Images
    from infra.sandboxes.docker.launcher import DockerLauncher

    engine = connected()
    return DockerLauncher(engine, Images(engine, images), stage, runtime, warm)


@asynccontextmanager
async def _worlds(settings: Settings) -> AsyncIterator[Worlds]:
    """The way to the world server for programs in sandboxes, opened when the first of them takes it."""
    opened: list[WorldService] = []
    opening = asyncio.Lock()
    async with AsyncExitStack() as closing:

        async def service() -> WorldService:
            async with opening:
                if not opened:
                    from workers.bootstrap.world_client import open_world_client  # slow, and most tasks need none

                    world = await closing.enter_async_context(open_world_client(settings))
                    opened.append(WorldService(world, Reconciler(world, ATTEMPT)))
                return opened[0]

        yield Worlds(service, settings.call_deadline)


@asynccontextmanager
async def open_host(settings: Settings, within_s: float = LINE_S) -> AsyncIterator[SandboxHost]:
    """The one host of the data folder. Raises ``StackFailed`` while another process is it."""
    settings.sandboxes.mkdir(parents=True, exist_ok=True, mode=0o700)
    hold = FolderHold(settings.sandboxes)
    deadline = time.monotonic() + within_s
    while not hold.take():
        if time.monotonic() > deadline:
            raise StackFailed(f"another process hosts the sandboxes in {settings.sandboxes}: end it")
        await asyncio.sleep(PAUSE_S)
    try:
        given = (settings.sandbox_stage, settings.images, settings.docker_runtime, settings.warm)
        with open_launchers(*given) as launchers:
            async with (
                _worlds(settings) as worlds,
                SandboxHost(launchers, settings.sandboxes, settings.slots, worlds=worlds) as host,
            ):
                yield host
    finally:
        hold.release()
