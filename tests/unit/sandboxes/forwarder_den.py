"""A forwarder in this process, over stand-ins for what it knows of its sandbox."""

import json
import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from infra.sandboxes.supervisor.dealings import Dealings
from infra.sandboxes.supervisor.files import Agent
from infra.sandboxes.supervisor.forwarder import Forwarder
from infra.sandboxes.supervisor.loop import Loop

OP = "ep/1/2/0"

OK = {"status": 200, "took_s": 0.0, "now_s": 3, "elsewhere_s": 0}


def post(tool: str = "add", body: bytes = b"{}", more: str = "") -> bytes:
    head = f"POST /{tool} HTTP/1.1\r\nHost: tally.world\r\nContent-Length: {len(body)}\r\n{more}\r\n"
    return head.encode() + body


@dataclass
class Sent:
    """A frame that the host was sent."""

    id: int
    op_id: str
    number: int
    path: str
    body: bytes


def sent_of(body: bytes, tail: bytes) -> Sent:
    said = json.loads(body)
    return Sent(said["id"], said["op_id"], said["number"], said["path"], tail)


@dataclass
class Den:
    """A forwarder with stand-ins for what it knows of the sandbox; ``sent`` are the frames for the host."""

    sent: list[Sent] = field(default_factory=list)
    written: list[tuple[str, Any]] = field(default_factory=list)
    gone: bool = False
    kind: type[Forwarder] = Forwarder
    now_s: float = 0.0

    def __post_init__(self) -> None:
        self.loop, self.dealings = Loop(), Dealings()
        self.operations = SimpleNamespace(
            sealed=False,
            refused=0,
            known={OP: SimpleNamespace(op_id=OP, do="exec", ended=True)},
            sandbox=SimpleNamespace(
                loop=self.loop,
                dealings=self.dealings,
                agent=Agent(None, None),
                journal=SimpleNamespace(write=lambda did, **fields: self.written.append((did, fields))),
                programs=SimpleNamespace(operation_of=lambda process: ""),  # the callers are this process itself
            ),
        )
        known: Any = self.operations  # stand-ins
        self.forwarder = self.kind(known, self._ask, 0, lambda: self.now_s)

    def _ask(self, body: bytes, tail: bytes) -> None:
        if self.gone:
            return
        sent = sent_of(body, tail)
        assert not sent.number or self.written, "its number is written down first"
        self.sent.append(sent)

    def until(self, holds: Callable[[], object]) -> None:
        while not holds():
            self.loop.after(0, lambda: None)
            self.loop.turn()

    def call(self, data: bytes) -> socket.socket:
        caller = socket.create_connection(self.forwarder.address)
        caller.sendall(data)
        caller.setblocking(False)
        return caller

    def answer(self, sent: Sent, body: bytes = b"{}", **said: Any) -> None:
        self.forwarder.answered({"id": sent.id, "ok": {**OK, **said}}, body)

    def heard(self, caller: socket.socket, ends: bytes) -> bytes:
        """What the caller reads, until it ends so."""
        data = bytearray()

        def read() -> bool:
            with suppress(BlockingIOError):
                data.extend(caller.recv(2**20))
            return data.endswith(ends)

        self.until(read)
        return bytes(data)
