"""What a frame may say: the supervisor refuses it and goes on, or ends; it never hangs and never breaks."""

import asyncio
import json
import random
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from infra.sandboxes.frames import HEAD, frame_of
from infra.sandboxes.supervisor.limits import MAX_JSON_BYTES, MAX_TAIL_BYTES
from schemas.base import sha256
from schemas.operation import ExecRequest
from schemas.sandbox import SandboxLimits
from tests.contract.sandboxes.supervised import Supervised, changed, spawn, started, supervised
from tiltyard.errors import BadInput, DeliveryConflict

SETUP: dict[str, Any] = {"limits": SandboxLimits().model_dump(), "environment": {}, "start": {"entries": []}}
CALL: dict[str, Any] = {
    "request": ExecRequest(op_id="a", argv=("true",), timeout_s=1).model_dump(mode="json"),
    "digest": "d",
}
ODD: tuple[Any, ...] = (
    None,
    True,
    -1,
    2**70,
    1e300,
    "",
    "\ud800",
    "a\0b",
    "..",
    [],
    [None],
    {},
    {"a": {}},
    "x" * 70_000,
)


@pytest.mark.parametrize("do", ["call", "snapshot", "settle", "seal", "drain", "facts"])
async def test_nothing_is_done_before_the_setup(do: str, tmp_path: Path) -> None:
    async with started(tmp_path) as den:
        with pytest.raises(BadInput, match="set up"):
            await den.link.ask(do, **CALL)


async def test_there_is_one_setup(tmp_path: Path) -> None:
    async with supervised(tmp_path) as den:
        with pytest.raises(BadInput, match="set up already"):
            await den.setup()


async def test_it_signals_everybody_in_a_namespace_of_its_own_only(tmp_path: Path) -> None:
    """As PID 1 it reaches all there is with one call. Anywhere else that would be the user's whole session."""
    async with started(tmp_path) as den:
        with pytest.raises(BadInput, match="not PID 1"):
            await den.setup(pid_one=True)


@pytest.mark.parametrize(
    "environment", [{"A": "b\0c"}, {"A=B": "c"}, {"": "c"}, {"A": 7}, {"A": None}, ["A"], "A=b"], ids=str
)
async def test_an_environment_is_names_with_values(environment: Any, tmp_path: Path) -> None:
    async with started(tmp_path) as den:
        with pytest.raises(BadInput):
            await den.setup(environment=environment)
        await den.setup(environment={"A": "b=c d"})
        assert "A=b=c d" in await den.out("env")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("from _json import", "from _no_json import"),
        ("make_scanner(_Scanning())", "make_scanner(object())"),
        ("    from _sha256 import sha256", "    from _no_sha256 import sha256"),
    ],
)
async def test_other_pythons_have_other_parts(old: str, new: str, tmp_path: Path) -> None:
    """What it takes of them is private: where it is not there the library's own does."""
    async with supervised(tmp_path, changed(old, new, tmp_path)) as den:
        assert await den.out("echo é") == "é\n"
        await den.write("file", b"x")
        assert [entry.digest for entry in (await den.snapshot()).entries] == [sha256(b"x")]


def mutated(value: Any, chance: random.Random) -> Any:
    """The value with one place of it replaced, left out or doubled."""
    if isinstance(value, dict) and value and chance.random() < 0.9:
        name = chance.choice(sorted(value))
        if chance.random() < 0.1:
            return {key: kept for key, kept in value.items() if key != name}
        return {**value, name: mutated(value[name], chance)}
    if isinstance(value, list) and value and chance.random() < 0.5:
        return [*value, mutated(value[0], chance)]
    return chance.choice(ODD)


async def test_odd_requests_are_refused_and_nothing_else_happens(tmp_path: Path) -> None:
    """Each is answered, with an error or as what it has become."""
    chance = random.Random(20)
    async with started(tmp_path) as den:
        for number in range(150):
            await answered(den, mutated({"do": "setup", "work": str(den.work), **SETUP, "n": number}, chance))
        for number in range(400):
            do = chance.choice(["call", "snapshot", "settle", "facts", "ping"])
            fields: dict[str, Any] = {
                "call": CALL,
                "snapshot": {"known": {"a": "b"}},
                "settle": {"limit_s": 0},
            }.get(do, {})
            await answered(den, mutated({"do": do, **fields, "n": number}, chance))
        assert (await den.link.ask("ping"))["set_up"] is True
        assert den.process.poll() is None


async def answered(den: Supervised, request: Any) -> None:
    fields = request if isinstance(request, dict) else {"do": request}
    do = fields.pop("do", None)
    with suppress(BadInput, DeliveryConflict):
        await asyncio.wait_for(den.link.ask(do, **fields), 30)


@pytest.mark.parametrize(
    "body",
    [b"", b"\xff", b"[]", b"1", b"null", b"{", b'{"id": "x"}', b'{"id": NaN}', b"[" * 200_000, b'{"id":1}{"id":2}'],
    ids=lambda body: repr(body[:12]),
)
def test_a_frame_that_is_no_request_is_answered(body: bytes, tmp_path: Path) -> None:
    with raw(tmp_path) as control:
        control.sendall(HEAD.pack(len(body), 0) + body)
        assert reply(control)["error"]["kind"] == "BadInput"
        control.sendall(frame_of({"id": 7, "do": "ping"}))
        assert (answered := reply(control))["id"] == 7
        assert answered["ok"]["set_up"] is False


def test_frames_come_in_any_pieces(tmp_path: Path) -> None:
    sent = b"".join(frame_of({"id": number, "do": "ping"}) for number in range(20))
    chance = random.Random(3)
    with raw(tmp_path) as control:
        while sent:
            size = chance.randint(1, 40)
            control.sendall(sent[:size])
            sent = sent[size:]
        assert [reply(control)["id"] for _ in range(20)] == list(range(20))


@pytest.mark.parametrize("too_large", [(MAX_JSON_BYTES + 1, 0), (2, MAX_TAIL_BYTES + 1)])
def test_a_frame_that_is_too_large_is_the_end(too_large: tuple[int, int], tmp_path: Path) -> None:
    """What follows would be out of step."""
    with raw(tmp_path) as control:
        control.sendall(HEAD.pack(*too_large))
        assert control.recv(1) == b""


def test_who_does_not_listen_holds_up_nobody(tmp_path: Path) -> None:
    """More answers than a socket takes are kept until they are asked for."""
    with raw(tmp_path) as control:
        setup = {"work": str(tmp_path / "work"), **SETUP}
        control.sendall(frame_of({"id": 0, "do": "setup", **setup}))
        assert reply(control) == {"id": 0, "ok": {}}
        (tmp_path / "work" / "large").write_bytes(bytes(2**20))
        for number in range(1, 6):
            control.sendall(frame_of({"id": number, "do": "snapshot", "known": {}}))
        answers = [reply(control) for _ in range(5)]
        assert [answer["id"] for answer in answers] == [1, 2, 3, 4, 5]
        assert {answer["ok"]["entries"][0]["size"] for answer in answers} == {2**20}


@contextmanager
def raw(folder: Path) -> Iterator[socket.socket]:
    """A supervisor without a link that speaks with it."""
    control, process = spawn(folder)
    control.settimeout(30)
    with control:
        yield control
    assert process.wait(30) == 0


def reply(control: socket.socket) -> Any:
    with control.makefile("rb", buffering=0) as stream:
        length, size = HEAD.unpack(exactly(stream, HEAD.size))
        answer = json.loads(exactly(stream, length))
        assert sum(entry["content"]["bytes"] for entry in answer.get("ok", {}).get("entries", ())) == size
        exactly(stream, size)
        return answer


def exactly(stream: socket.SocketIO, size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = stream.read(size - len(data))
        assert piece, "it hung up"
        data += piece
    return data
