"""Hosts of Docker's sandboxes for a subject, asked over a socket as a worker asks, with the engine beside them."""

import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from infra.sandboxes import records
from infra.sandboxes.client import HostClient
from infra.sandboxes.docker import member as members
from infra.sandboxes.docker.engine import Engine, connected
from infra.sandboxes.docker.images import Images
from infra.sandboxes.docker.launcher import DockerLauncher
from infra.sandboxes.docker.member import Member
from infra.sandboxes.host import SandboxHost
from infra.sandboxes.serve import serving
from schemas.operation import ExecRequest
from schemas.sandbox import Isolation, SandboxOrder, SandboxRef
from schemas.world import Owner
from tiltyard.errors import EnvironmentFailed

SLOTS = 8
WITHIN_S = 60.0


@dataclass
class Yard:
    """One host with its folder, and the engine."""

    host: HostClient
    folder: Path
    engine: Engine
    isolation: Isolation
    numbers: "itertools.count[int]" = field(default_factory=itertools.count)

    async def provision(self) -> SandboxRef:
        """A sandbox that nobody has asked for yet."""
        name = f"bench-{next(self.numbers)}"
        owner = Owner(cluster="bench", temporal_namespace="default", workflow_id=name, first_run_id=name)
        order = SandboxOrder(
            driver="docker", name=name, incarnation=1, owner=owner, episode_id=name, isolation=self.isolation
        )
        return await self.host.provision(order)

    async def close(self, box: SandboxRef) -> None:
        """Seal, drain and release, as an episode does at its end: one that can be reset is."""
        await self.host.seal(box)
        await self.host.drain(box)
        await self.host.release(box)

    @asynccontextmanager
    async def sandbox(self) -> AsyncIterator[SandboxRef]:
        """One that is closed afterwards."""
        box = await self.provision()
        try:
            yield box
        finally:
            await self.close(box)

    async def run(self, box: SandboxRef, *argv: str) -> None:
        """Run a program. Raises ``EnvironmentFailed`` unless it succeeds."""
        request = ExecRequest(op_id=f"bench-{next(self.numbers)}", argv=argv, timeout_s=WITHIN_S)
        reply = await self.host.call(box, request)
        if reply.exec is None or reply.exec.exit_code != 0:
            raise EnvironmentFailed(f"{argv[0]} did not run: {reply.code} {reply.message}")

    def member(self, box: SandboxRef) -> Member:
        """What its driver knows of a sandbox's container."""
        folder = members.linked(records.folder_of(self.folder, box))
        member = members.read(folder) if folder else None
        if member is None:
            raise EnvironmentFailed(f"the benchmark's sandbox {box.name} has no record")
        return member

    def container(self, box: SandboxRef) -> dict[str, Any]:
        """What the engine says of a sandbox's container."""
        about: dict[str, Any] = self.engine.api.inspect_container(self.member(box).name)
        return about


@asynccontextmanager
async def yard(folder: Path, images: Path, isolation: Isolation, warm: int) -> AsyncIterator[Yard]:
    """A host in this process; ``warm`` containers may wait in it. At the end there is none any more."""
    with closing(connected()) as engine, closing(_launcher(engine, images, folder, warm)) as launcher:
        async with (
            SandboxHost({"docker": launcher}, folder / "sandboxes", SLOTS) as host,
            serving(host, folder / "host.sock"),
            HostClient(folder / "host.sock") as client,
        ):
            yield Yard(client, folder / "sandboxes", engine, isolation)


def _launcher(engine: Engine, images: Path, folder: Path, warm: int) -> DockerLauncher:
    folder.mkdir()
    return DockerLauncher(engine, Images(engine, images), folder / "shared", warm=warm)
