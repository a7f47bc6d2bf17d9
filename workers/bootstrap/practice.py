"""A stage in this process: the worlds in memory, and sandboxes of its own that are gone when it is."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

from infra.sandboxes.host import SandboxHost
from infra.sandboxes.inside import Worlds
from tiltyard.episode.delivery import Reconciler
from tiltyard.reopen.pin_checks import Stage
from tiltyard.sandbox.service import WorldService
from tiltyard.suite.practice import stage
from tiltyard.testing.local_world import LocalWorld
from tiltyard.worlds.kit import WorldKind
from workers.bootstrap.sandboxes import open_launchers
from workers.settings import Settings

ATTEMPT = timedelta(seconds=5)


@asynccontextmanager
async def open_stage(settings: Settings, worlds: Mapping[str, WorldKind]) -> AsyncIterator[Stage]:
    """The stage. No driver is tried out before a sandbox of it is asked for, and nothing needs a stack."""
    engine = stage(worlds)
    world = LocalWorld(engine)
    service = WorldService(world, Reconciler(world, ATTEMPT))

    async def served() -> WorldService:
        return service

    with TemporaryDirectory(prefix="tiltyard-") as folder:
        host = Path(folder) / "host"
        await asyncio.to_thread(host.mkdir)
        with open_launchers(Path(folder) / "stage", settings.images, settings.docker_runtime) as launchers:
            served_worlds = Worlds(served, settings.call_deadline)
            async with SandboxHost(launchers, host, settings.slots, worlds=served_worlds) as sandboxes:
                yield Stage(engine, sandboxes)
