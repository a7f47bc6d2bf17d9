"""The supervisor as a plain process, without a sandbox around it, and short ways to ask it."""

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from infra.sandboxes.joined import joined
from infra.sandboxes.link import Link
from schemas.operation import ExecRequest, ReadRequest, SandboxReply, SandboxRequest, WriteRequest, request_digest
from schemas.sandbox import SandboxLimits, Snapshot
from schemas.sandbox_facts import SandboxFacts
from tiltyard.errors import SandboxLost

__all__ = ["NO_LISTENER", "SOURCE", "Supervised", "changed", "spawn", "started", "supervised"]

SOURCE = joined()
"""The supervisor as it is put into a sandbox."""

NO_LISTENER = ("SECCOMP_CALL[machine], flags, call_filter(machine))", "SECCOMP_CALL[machine], 0, b'')")
"""A change to the supervisor: as on a machine that does not tell of execs."""


class Supervised:
    """One supervisor. ``work`` is its work folder, ``journal`` its receipts."""

    def __init__(self, link: Link, process: "subprocess.Popen[bytes]", folder: Path) -> None:
        self.link, self.process = link, process
        self.work, self.journal = folder / "work", folder / "journal"
        self._asked = 0

    async def setup(self, **fields: Any) -> None:
        plain = {"work": str(self.work), "limits": SandboxLimits(), "environment": {}, "start": Snapshot()}
        said = {name: _json(value) for name, value in {**plain, **fields}.items()}
        await self.link.ask("setup", **said)

    async def call(self, request: SandboxRequest) -> SandboxReply:
        answer = await self.link.ask(
            "call", request=request.model_dump(mode="json"), digest=request_digest(request)
        )
        return SandboxReply.model_validate(answer)

    async def run(self, *argv: str, op_id: str = "", timeout_s: float = 60, stdin: bytes = b"") -> SandboxReply:
        self._asked += 1
        named = op_id or f"op-{self._asked}"
        return await self.call(ExecRequest(op_id=named, argv=argv, timeout_s=timeout_s, stdin=stdin))

    async def sh(self, script: str, **fields: Any) -> Any:
        """The result of a script; it has to be one."""
        reply = await self.run("/bin/sh", "-c", script, **fields)
        assert reply.exec is not None, reply
        return reply.exec

    async def out(self, script: str, **fields: Any) -> str:
        text: str = (await self.sh(script, **fields)).stdout.text
        return text

    async def python(self, script: str, **fields: Any) -> str:
        """What a Python program prints; it has to succeed."""
        reply = await self.run(sys.executable, "-I", "-S", "-c", script, **fields)
        assert reply.exec is not None, reply
        assert reply.exec.exit_code == 0, reply
        return reply.exec.stdout.text

    async def read(self, path: str, **fields: Any) -> SandboxReply:
        self._asked += 1
        return await self.call(ReadRequest(op_id=f"op-{self._asked}", path=path, **fields))

    async def write(self, path: str, content: bytes, **fields: Any) -> SandboxReply:
        self._asked += 1
        return await self.call(WriteRequest(op_id=f"op-{self._asked}", path=path, content=content, **fields))

    async def snapshot(self, **known: str) -> Snapshot:
        return Snapshot.model_validate(await self.link.ask("snapshot", known=known))

    async def facts(self) -> SandboxFacts:
        said = await self.link.ask("facts")
        return SandboxFacts.model_validate({"driver": "unsafe-local", "incarnation": 1, **said})

    async def appears(self, name: str) -> None:
        """Wait until a command has made a file."""
        while not (self.work / name).exists():
            await asyncio.sleep(0.005)

    async def ended(self) -> int:
        """Wait for the supervisor's end; its status."""
        while self.process.poll() is None:
            await asyncio.sleep(0.005)
        return self.process.returncode


def _json(value: Any) -> Any:
    return value.model_dump() if hasattr(value, "model_dump") else value


def changed(old: str, new: str, folder: Path) -> Path:
    """A supervisor whose source differs in one place, which has to be there."""
    assert SOURCE.count(old) == 1, f"{SOURCE.count(old)} times in the supervisor: {old!r}"
    copy = folder / "supervisor.py"
    copy.write_text(SOURCE.replace(old, new))
    return copy


def spawn(
    folder: Path, program: Path | None = None, before: tuple[str, ...] = ()
) -> "tuple[socket.socket, subprocess.Popen[bytes]]":
    """A supervisor that waits for its first frame, and the socket that it is asked through. ``program`` is a
    changed one, and ``before`` a command that becomes it."""
    if program is None:
        program = folder / "supervisor.py"
        program.write_text(SOURCE)
    (folder / "work").mkdir(exist_ok=True)
    ours, theirs = socket.socketpair()
    journal = os.open(folder / "journal", os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
    process = subprocess.Popen(
        [*before, sys.executable, "-I", "-S", str(program), str(theirs.fileno()), str(journal)],
        pass_fds=(theirs.fileno(), journal),
        env={},
        start_new_session=True,
    )
    theirs.close()
    os.close(journal)
    return ours, process


@asynccontextmanager
async def started(
    folder: Path, program: Path | None = None, before: tuple[str, ...] = ()
) -> AsyncIterator[Supervised]:
    """A supervisor that waits for its first frame."""
    ours, process = spawn(folder, program, before)
    link = await Link.over(ours, lambda: SandboxLost("the supervisor has ended"))
    den = Supervised(link, process, folder)
    try:
        yield den
    finally:
        link.close()
        await den.ended()


@asynccontextmanager
async def supervised(
    folder: Path, program: Path | None = None, before: tuple[str, ...] = (), **setup: Any
) -> AsyncIterator[Supervised]:
    """A supervisor that is set up."""
    async with started(folder, program, before) as den:
        await den.setup(**setup)
        yield den
