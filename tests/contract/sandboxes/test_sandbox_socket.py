"""The socket of the sandbox host: what breaks on it, and who may speak."""

import asyncio
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

from infra.sandboxes.client import HostClient
from infra.sandboxes.frames import frame_of, read_frame
from infra.sandboxes.serve import serving
from infra.sandboxes.supervisor.limits import MAX_JSON_BYTES, MAX_TAIL_BYTES
from infra.sandboxes.wire import METHODS
from schemas.operation import ExecRequest
from schemas.sandbox import FileEntry, SandboxOrder, SandboxRef, Snapshot, WorldAccess
from schemas.sandbox_facts import SandboxDrain
from tests.contract.sandboxes.host_yard import SLEEP, TRUE, order
from tiltyard.errors import BadInput, EnvironmentFailed, SandboxLost, SandboxUnreachable, StackFailed
from tiltyard.ports import Sandboxes
from tiltyard.testing.memory_sandboxes import MemorySandboxes


@pytest.fixture
def path() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder) / "sandboxes.sock"


@asynccontextmanager
async def asking(path: Path, sandboxes: Sandboxes) -> AsyncIterator[HostClient]:
    async with serving(sandboxes, path), HostClient(path) as client:
        yield client


NO_TAIL = bytes(4)

GARBAGE = {
    "nothing": b"",
    "half a head": b"\0\0",
    "half a frame": b"\0\0\1\0" + NO_TAIL + b"{",
    "a huge frame": b"\xff\xff\xff\xff" + NO_TAIL + b"{}",
    "a huge tail": b"\0\0\0\2" + b"\xff\xff\xff\xff{}",
    "no JSON": b"\0\0\0\3" + NO_TAIL + b"{]}",
    "binary": b"\1\2\3" + b"\0" * 400,
    "no object": b"\0\0\0\3" + NO_TAIL + b"[1]",
    "no id": b"\0\0\0\2" + NO_TAIL + b"{}",
    "a tail that nobody asked for": b"\0\0\0\x08\0\0\0\1" + b'{"id":1}x',
    "a tail that is too short": b"\0\0\0\x18\0\0\0\1" + b'{"id":1,"x":{"bytes":2}}x',
    "a tail of less than nothing": b"\0\0\0\x19\0\0\0\1" + b'{"id":1,"x":{"bytes":-1}}x',
    "an id that is none": frame_of({"id": "1", "do": "sandboxes"}),
    "deep": b"\0\1\0\0" + NO_TAIL + b"[" * 65_536,
    "HTTP": b"GET / HTTP/1.1\r\n\r\n",
}


@pytest.mark.parametrize("garbage", GARBAGE)
async def test_garbage_ends_its_connection_and_no_other(path: Path, garbage: str) -> None:
    async with asking(path, MemorySandboxes()) as client:
        await client.sandboxes()
        reader, writer = await asyncio.open_unix_connection(path)
        writer.write(GARBAGE[garbage])
        writer.write_eof()
        assert await reader.read() == b""
        writer.close()
        assert await client.provision(order())


async def test_a_frame_past_the_limit_is_not_waited_for(path: Path) -> None:
    async with serving(MemorySandboxes(), path):
        reader, writer = await asyncio.open_unix_connection(path)
        writer.write((MAX_JSON_BYTES + 1).to_bytes(4, "big") + NO_TAIL)
        assert await reader.read() == b""
        writer.close()


WRONG: dict[str, tuple[dict[str, object], str]] = {
    "no method": ({}, "do"),
    "another method": ({"do": "__init__"}, "do"),
    "no fields": ({"do": "provision"}, "provision.order"),
    "a wrong field": ({"do": "offer", "driver": "magic"}, "offer.driver"),
    "one too many": ({"do": "sandboxes", "all": True}, "sandboxes.all"),
    "not base64": (
        {
            "do": "call",
            "sandbox": {"driver": "bubblewrap", "name": "x", "incarnation": 1},
            "request": {"do": "write", "op_id": "x", "path": "x", "content": "?"},
        },
        "call.request.write.content",
    ),
}


@pytest.mark.parametrize("wrong", WRONG)
async def test_a_wrong_request_is_told_what_is_wrong(path: Path, wrong: str) -> None:
    asked, field = WRONG[wrong]
    async with serving(MemorySandboxes(), path):
        reader, writer = await asyncio.open_unix_connection(path)
        for number in (1, 2):
            writer.write(frame_of({"id": number, **asked}))
            said = await read_frame(reader)
            assert said is not None
            assert (said["id"], said["error"]["kind"], said["error"]["field"]) == (number, "BadInput", field)
            assert said["error"]["fix"]
        writer.close()


async def test_answers_come_as_they_are_ready(path: Path) -> None:
    async with asking(path, MemorySandboxes()) as client:
        ref = await client.provision(order())
        slow = asyncio.create_task(client.call(ref, SLEEP))
        for number in range(50):
            quick = ExecRequest(op_id=f"{number}", argv=("/bin/sh", "-c", f"echo {number}"), timeout_s=10)
            reply = await client.call(ref, quick)
            assert reply.exec is not None
            assert reply.exec.stdout.text == f"{number}\n"
        assert not slow.done()
        await client.release(ref)
        with pytest.raises(SandboxLost):
            await slow


class Failing(MemorySandboxes):
    async def drain(self, sandbox: SandboxRef) -> SandboxDrain:
        raise RuntimeError("a bug" * 1000)


async def test_a_bug_in_the_host_is_told_and_ends_nothing(path: Path) -> None:
    async with asking(path, Failing()) as client:
        ref = await client.provision(order())
        with pytest.raises(EnvironmentFailed, match=r"^(a bug)+"):
            await client.drain(ref)
        assert await client.call(ref, TRUE)


async def test_no_host_is_unreachable_whatever_is_asked(path: Path) -> None:
    asked: SandboxOrder = order()
    ref = await MemorySandboxes().provision(asked)
    async with HostClient(path) as client:
        attempts = [
            client.offer("bubblewrap"),
            client.provision(asked),
            client.connect(ref, WorldAccess(world="tally", namespace="ns-1", generation=1)),
            client.call(ref, TRUE),
            client.snapshot(ref, {}),
            client.settle(ref, 0),
            client.seal(ref),
            client.drain(ref),
            client.facts(ref),
            client.release(ref),
            client.sandboxes(),
            client.sweep(),
            client.capacity(),
        ]
        assert len(attempts) == len(METHODS)
        for attempt in attempts:
            with pytest.raises(SandboxUnreachable):
                await attempt


async def test_a_host_that_ends_leaves_nobody_waiting_and_the_next_one_is_found(path: Path) -> None:
    async with HostClient(path) as client:
        async with serving(MemorySandboxes(), path):
            ref = await client.provision(order())
            asked = [asyncio.create_task(client.call(ref, SLEEP)) for _ in range(3)]
            await client.sandboxes()
        for one in asked:
            with pytest.raises(SandboxUnreachable):
                await one
        with pytest.raises(SandboxUnreachable):
            await client.sandboxes()
        async with serving(MemorySandboxes(), path):
            assert await client.sandboxes() == ()


async def test_a_cancelled_caller_leaves_the_queue(path: Path) -> None:
    async with asking(path, MemorySandboxes(slots=1)) as client:
        first = await client.provision(order("first"))
        cancelled = asyncio.create_task(client.provision(order("cancelled")))
        await client.sandboxes()
        cancelled.cancel()
        await client.sandboxes()
        waiting = asyncio.create_task(client.provision(order("second")))
        await client.release(first)
        assert (await waiting).name == "second"


async def test_a_cancelled_caller_cancels_no_command(path: Path) -> None:
    sandboxes = MemorySandboxes()
    async with asking(path, sandboxes) as client:
        ref = await client.provision(order())
        sandboxes.ending.shut()
        asked = asyncio.create_task(client.call(ref, TRUE))
        await sandboxes.ending.reached.wait()
        asked.cancel()
        await client.sandboxes()
        sandboxes.ending.open()
        reply = await client.call(ref, TRUE)
        assert reply.exec is not None
        assert sandboxes.executions["true"] == 1


async def test_a_living_host_is_left_alone_and_a_dead_ones_socket_is_taken_over(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(os.fspath(path))
    async with asking(path, MemorySandboxes()) as client:
        with pytest.raises(StackFailed, match="is listening"):
            await _enter(serving(MemorySandboxes(), path))
        assert await client.sandboxes() == ()


async def test_a_path_that_is_too_long_is_refused(tmp_path: Path) -> None:
    deep = tmp_path / ("x" * 100)
    with pytest.raises(BadInput, match="longer than 103 bytes"):
        HostClient(deep)
    with pytest.raises(BadInput, match="longer than 103 bytes"):
        await _enter(serving(MemorySandboxes(), deep))


async def _enter(context: AbstractAsyncContextManager[None]) -> None:
    async with context:
        pass


ASKS = "import socket, sys; s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); sys.exit(s.recv(1) != b'')"


@pytest.mark.skipif(os.getuid() != 0, reason="only root can be somebody else")
async def test_somebody_else_is_turned_away(path: Path) -> None:
    async with serving(MemorySandboxes(), path):
        assert path.stat().st_mode & 0o777 == 0o600
        path.chmod(0o666)
        path.parent.chmod(0o755)
        ask = [sys.executable, "-I", "-c", ASKS, os.fspath(path)]
        code = await asyncio.to_thread(_run_as_nobody, ask)
        assert code == 0, "the connection was not closed"


def _run_as_nobody(argv: list[str]) -> int:
    python = Path("/usr/bin/python3")
    if not python.exists():
        pytest.skip("no interpreter that another user can reach")
    return subprocess.run([os.fspath(python), *argv[1:]], user=65534, group=65534, timeout=60).returncode


HUGE = FileEntry.model_construct(
    path="huge", kind="file", mode=0o644, digest="", target="", content=bytes(MAX_TAIL_BYTES + 1)
)


async def test_what_no_frame_takes_is_bad_input_and_disturbs_no_other(path: Path) -> None:
    async with asking(path, MemorySandboxes()) as client:
        ref = await client.provision(order())
        slow = asyncio.create_task(client.call(ref, SLEEP))
        with pytest.raises(BadInput) as caught:
            await client.provision(
                order("two").model_copy(update={"start": Snapshot.model_construct(entries=(HUGE,))})
            )
        assert caught.value.field == "provision"
        assert await client.call(ref, TRUE)
        assert not slow.done()
        await client.release(ref)


class Huge(MemorySandboxes):
    async def snapshot(self, sandbox: SandboxRef, known: Mapping[str, str]) -> Snapshot:
        return Snapshot.model_construct(entries=(HUGE,), skipped=())


async def test_an_answer_that_no_frame_takes_is_an_error_and_no_hang_up(path: Path) -> None:
    async with asking(path, Huge()) as client:
        ref = await client.provision(order())
        with pytest.raises(BadInput, match="more than fit"):
            await client.snapshot(ref, {})
        assert await client.call(ref, TRUE)
