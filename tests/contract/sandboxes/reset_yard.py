"""A host whose containers are used again, and what a test knows of each of them from outside."""

import asyncio
import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import docker

from infra.sandboxes.compiled import SOURCE_NAME
from infra.sandboxes.docker import member as members
from infra.sandboxes.docker.images import Images
from infra.sandboxes.docker.launcher import DockerLauncher
from infra.sandboxes.docker.member import Member
from infra.sandboxes.docker.supervisors import Supervisors
from infra.sandboxes.host import SandboxHost
from infra.sandboxes.joined import joined
from infra.sandboxes.records import folder_of
from schemas.sandbox_facts import SandboxFacts
from tests.contract.sandboxes.docker_engine import engine_or_skip
from tiltyard.testing.sandbox_bench import Box, SandboxBench

Write = Callable[[Path], Path]


@dataclass(frozen=True)
class ResetYard:
    """``folder`` has the host's sandboxes and, below ``shared``, its containers."""

    engine: docker.DockerClient
    launcher: DockerLauncher
    host: SandboxHost
    folder: Path

    @property
    def bench(self) -> SandboxBench:
        return SandboxBench(self.host, "docker")

    def box(self, **fields: object) -> Box:
        """A sandbox that may be made of what was reset, and may be reset."""
        return Box(self.bench, self.bench.order(**{"isolation": "reset", **fields}))

    async def made(self, **fields: object) -> Box:
        box = self.box(**fields)
        await box.provision()
        return box

    async def closed(self, box: Box) -> SandboxFacts:
        """What its episode does at its end, up to the release."""
        await box.close()
        return await self.host.facts(box.ref)

    async def over(self, box: Box) -> SandboxFacts:
        facts = await self.closed(box)
        await self.host.release(box.ref)
        return facts

    def member_of(self, box: Box) -> Member:
        """The container that serves it."""
        member = members.read(members.linked(folder_of(self.folder / "sandboxes", box.ref)) or self.folder)
        assert member is not None
        return member

    def first_of(self, box: Box) -> int:
        """Its supervisor, by its number out here."""
        first = self.member_of(box).first
        assert first is not None
        return first.pid

    def is_there(self, member: Member) -> bool:
        """Whether the engine has the container still."""
        found = self.engine.api.containers(all=True, filters={"name": member.name})
        return bool(found) and member.folder.exists()


WITHIN_S = 60.0
"""How long all that wait may take to end, in seconds, on a machine that does much else."""


@asynccontextmanager
async def reset_yard(
    folder: Path, images: Path, write: Write | None = None, warm: int = 8
) -> AsyncIterator[ResetYard]:
    """At the end everything is closed; nothing of its containers is left."""
    with engine_or_skip() as engine:
        shared = folder / "shared"
        supervisors = Supervisors(engine, shared, write) if write else None
        launcher = DockerLauncher(engine, Images(engine, images), shared, warm=warm, supervisors=supervisors)
        try:
            async with SandboxHost({"docker": launcher}, folder / "sandboxes", slots=4) as host:
                yield ResetYard(engine, launcher, host, folder)
        finally:
            await asyncio.to_thread(launcher.close, WITHIN_S)
    assert list(members.folders(shared / "containers")) == []


def changed_supervisor(*changes: tuple[str, str]) -> Write:
    """Writes a supervisor in which each first text, which has to be there once, is the second."""

    def write(folder: Path) -> Path:
        source = joined()
        for old, new in changes:
            assert source.count(old) == 1, f"{source.count(old)} times in the supervisor: {old!r}"
            source = source.replace(old, new)
        file = folder / SOURCE_NAME
        file.write_text(source)
        return file

    return write


def inside(first: int, namespaces: str, *command: str) -> "subprocess.Popen[str]":
    """A command of the host's root in some namespaces of a container, which has said a line by now."""
    program = shutil.which("nsenter") or "/usr/bin/nsenter"
    started = subprocess.Popen(
        [program, f"--target={first}", *(f"--{name}" for name in namespaces.split()), "--", *command],
        stdout=subprocess.PIPE,
        text=True,
        env={"PATH": os.defpath},
    )
    assert started.stdout is not None
    assert started.stdout.readline(), command
    return started
