"""What the checks of the sandbox kit stand on: a port, a driver, and short ways to ask one sandbox."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from schemas.operation import ExecRequest, ExecResult, ReadRequest, SandboxReply, SandboxRequest, WriteRequest
from schemas.sandbox import DriverName, SandboxOrder, SandboxRef, Snapshot
from schemas.world import Owner
from tiltyard.errors import TiltyardError
from tiltyard.ports import Sandboxes

__all__ = ["OWNER", "Box", "SandboxBench", "refuses"]

OWNER = Owner(cluster="kit", temporal_namespace="kit", workflow_id="kit", first_run_id="kit")

ResultT = TypeVar("ResultT")


@dataclass(frozen=True)
class SandboxBench:
    """``patience_s`` is how long an answer may take that needs no waiting; past it the check fails: it hangs."""

    port: Sandboxes
    driver: DriverName
    patience_s: float = 60

    def order(self, **fields: Any) -> SandboxOrder:
        """An order of a sandbox that nobody has asked for yet; ``fields`` are those of ``SandboxOrder``."""
        name = f"kit-{uuid.uuid4().hex[:12]}"
        plain: dict[str, Any] = {"driver": self.driver, "name": name, "incarnation": 1}
        return SandboxOrder(**{**plain, "owner": OWNER, "episode_id": name, **fields})

    async def soon(self, answer: Awaitable[ResultT]) -> ResultT:
        """The answer, or ``AssertionError`` when there is none."""
        try:
            async with asyncio.timeout(self.patience_s):
                return await answer
        except TimeoutError:
            raise AssertionError(f"there is no answer within {self.patience_s} s") from None

    @asynccontextmanager
    async def sandbox(self, **fields: Any) -> AsyncIterator["Box"]:
        """A fresh sandbox, and no incarnation of it afterwards."""
        box = Box(self, self.order(**fields))
        await box.provision()
        try:
            yield box
        finally:
            for record in await self.soon(self.port.sandboxes()):
                if record.ref.name == box.order.name:
                    await self.soon(self.port.release(record.ref))


class Box:
    """One sandbox, asked in few words. Operations get ids of their own unless they are given one."""

    def __init__(self, bench: SandboxBench, order: SandboxOrder) -> None:
        self.bench, self.port, self.order = bench, bench.port, order
        self.ref = SandboxRef(driver=order.driver, name=order.name, incarnation=order.incarnation)
        self._asked = 0

    async def provision(self) -> SandboxRef:
        return await self.bench.soon(self.port.provision(self.order))

    def again(self, **fields: Any) -> "Box":
        """The next incarnation, not provisioned yet."""
        later = {"incarnation": self.order.incarnation + 1, **fields}
        return Box(self.bench, self.order.model_copy(update=later))

    async def call(self, request: SandboxRequest) -> SandboxReply:
        return await self.bench.soon(self.port.call(self.ref, request))

    def script(self, script: str, op_id: str = "", timeout_s: float = 30, stdin: bytes = b"") -> ExecRequest:
        argv = ("/bin/sh", "-c", script)
        return ExecRequest(op_id=op_id or self._new_id(), argv=argv, timeout_s=timeout_s, stdin=stdin)

    async def sh(self, script: str, op_id: str = "", timeout_s: float = 30, stdin: bytes = b"") -> ExecResult:
        reply = await self.call(self.script(script, op_id, timeout_s, stdin))
        assert reply.exec is not None, f"{script!r} was answered {reply}"
        return reply.exec

    async def out(self, script: str) -> str:
        """What a script that succeeds prints."""
        result = await self.sh(script)
        assert result.exit_code == 0, f"{script!r} ended {result}"
        return result.stdout.text

    async def read(self, path: str, op_id: str = "", **fields: Any) -> SandboxReply:
        return await self.call(ReadRequest(op_id=op_id or self._new_id(), path=path, **fields))

    async def content(self, path: str) -> bytes:
        reply = await self.read(path)
        assert reply.read is not None, f"{path} was answered {reply}"
        return reply.read.content

    async def write(self, path: str, content: bytes, op_id: str = "", **fields: Any) -> SandboxReply:
        return await self.call(WriteRequest(op_id=op_id or self._new_id(), path=path, content=content, **fields))

    async def appears(self, path: str) -> None:
        """Wait until a command has made a file."""
        while (await self.read(path)).read is None:  # noqa: ASYNC110 - nothing tells of a file in a sandbox
            await asyncio.sleep(0.01)

    async def put(self, path: str, content: bytes, **fields: Any) -> None:
        reply = await self.write(path, content, **fields)
        assert reply.write is not None, f"{path} was answered {reply}"
        assert reply.write.size == len(content), f"{path} has {reply.write.size} bytes, not {len(content)}"

    async def snapshot(self, known: Mapping[str, str] | None = None) -> Snapshot:
        return await self.bench.soon(self.port.snapshot(self.ref, known or {}))

    async def files(self) -> dict[str, bytes]:
        """Contents of all files, by path."""
        snapshot = await self.snapshot()
        return {entry.path: entry.content or b"" for entry in snapshot.entries if entry.kind == "file"}

    async def settle(self, limit_s: float) -> bool:
        return await self.bench.soon(self.port.settle(self.ref, limit_s))

    async def close(self) -> None:
        """Seal and drain."""
        await self.bench.soon(self.port.seal(self.ref))
        await self.bench.soon(self.port.drain(self.ref))

    def _new_id(self) -> str:
        self._asked += 1
        return f"kit-{self._asked}"


async def refuses(error: type[Exception], attempt: Awaitable[object]) -> None:
    """``attempt`` raises ``error``; an answer, or another error of ours, fails the check."""
    try:
        answer: object = await attempt
    except error:
        return
    except TiltyardError as other:
        answer = other
    raise AssertionError(f"{error.__name__} was due, and the answer is {answer!r}")
