"""The forwarder in this process: requests are numbered, sent one by one, and again until they are answered."""

import json
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from infra.sandboxes.supervisor.callers import caller_of
from infra.sandboxes.supervisor.dealings import Dealings
from infra.sandboxes.supervisor.files import Agent
from infra.sandboxes.supervisor.forwarder import Caller, Forwarder
from infra.sandboxes.supervisor.limits import MAX_CALLERS, MAX_CALLS, MAX_HTTP_BODY_BYTES
from infra.sandboxes.supervisor.loop import Loop
from schemas.sandbox import WorldAccess
from tiltyard.episode.delivery import Reconciler
from tiltyard.sandbox.service import Asked, WorldService
from tiltyard.testing.engine_bench import lease_request
from tiltyard.testing.local_world import LocalWorld
from tiltyard.testing.memory_worlds import MemoryWorlds
from tiltyard.testing.tally_world import TALLY
from tiltyard.worlds.engine import Engine

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


@pytest.fixture
def den() -> Iterator[Den]:
    made = Den()
    yield made
    made.forwarder.close()


def test_calls_are_numbered_under_the_operation_of_their_program_before_they_are_sent(den: Den) -> None:
    caller = den.call(post("add", b'{"name":"apples"}'))
    den.until(lambda: den.sent)
    assert den.sent == [Sent(1, OP, 1, "/add", b'{"name":"apples"}')]
    assert den.written == [("forwarded", {"op": OP, "number": 1})]
    den.answer(den.sent[0], b'{"total":1}')
    assert den.heard(caller, b'{"total":1}').startswith(b"HTTP/1.1 200 OK\r\n")
    caller.sendall(post("add", b'{"name":"pears"}'))
    den.until(lambda: len(den.sent) == 2)
    assert (den.sent[1].op_id, den.sent[1].number) == (OP, 2)
    caller.close()


def test_a_look_at_the_tools_has_no_number(den: Den) -> None:
    caller = den.call(b"GET / HTTP/1.1\r\nHost: tally.world\r\n\r\n" + post())
    den.until(lambda: den.sent)
    den.answer(den.sent[0])
    den.until(lambda: len(den.sent) == 2)
    assert [one.number for one in den.sent] == [0, 1]
    caller.close()


def test_what_was_not_answered_is_sent_again_under_its_number(den: Den) -> None:
    caller = den.call(post())
    den.until(lambda: den.sent)
    den.forwarder.send()  # a new host has come
    first, second = den.sent
    assert first == second
    den.answer(second, b"1")
    den.answer(first, b"2")  # that of the old host comes late
    assert den.heard(caller, b"\r\n\r\n1")
    assert den.dealings.clock == {"now_s": 3, "elsewhere_s": 0}
    caller.close()


class NumbersAnew(Forwarder):
    """A sabotage: what is sent again has a new number."""

    def send(self) -> None:
        if self._sent is not None:
            said = json.loads(self._sent[0])
            said["number"] = self._numbers[OP] = self._numbers[OP] + 1
            self._sent = json.dumps(said).encode(), self._sent[1]
        super().send()


async def effects_of_a_lost_reply(kind: type[Forwarder]) -> tuple[int, str]:
    """(how often a call took effect whose first reply was lost with its host, what its program was answered)."""
    den = Den(kind=kind)
    engine = Engine({"tally": TALLY}, MemoryWorlds())
    lease = engine.lease(lease_request(inside_tools=("add",)))
    engine.admit(lease.namespace, lease.generation, 1)
    service = WorldService(LocalWorld(engine), Reconciler(LocalWorld(engine), timedelta(seconds=1)))
    access = WorldAccess(world="tally", namespace=lease.namespace, generation=lease.generation)

    async def told(sent: Sent) -> bytes:
        asked = Asked("tally.world", "POST", sent.path, sent.body, f"{sent.op_id}/http/{sent.number}")
        return (await service.answer(access, 1, {"tally": ("add",)}, asked)).body

    caller = den.call(post("add", b'{"name":"apples"}'))
    den.until(lambda: den.sent)
    await told(den.sent[0])
    den.forwarder.send()
    den.answer(den.sent[1], await told(den.sent[1]))
    heard = den.heard(caller, b"}")
    caller.close()
    den.forwarder.close()
    engine.seal(lease.namespace, lease.generation)
    facts = engine.facts(lease.namespace, lease.generation)
    effects = sum(bool(one.reply and one.reply.committed) for one in facts.deliveries)
    return effects, heard.partition(b"\r\n\r\n")[2].decode()


def sent_of(body: bytes, tail: bytes) -> Sent:
    said = json.loads(body)
    return Sent(said["id"], said["op_id"], said["number"], said["path"], tail)


async def test_a_lost_reply_is_no_second_effect() -> None:
    effects, heard = await effects_of_a_lost_reply(Forwarder)
    assert (effects, json.loads(heard)["amounts"]) == (1, [1])


async def test_without_the_number_the_second_effect_is_there() -> None:
    effects, heard = await effects_of_a_lost_reply(NumbersAnew)
    assert (effects, json.loads(heard)["amounts"]) == (2, [1, 1])


def test_a_call_that_comes_while_no_host_is_there_waits_for_the_next_one(den: Den) -> None:
    den.gone = True
    caller = den.call(post())
    den.until(lambda: den.written)
    assert den.sent == []
    den.gone = False
    den.forwarder.send()
    assert [one.number for one in den.sent] == [1]
    caller.close()


def test_one_is_under_way_at_a_time_in_the_order_in_which_they_came(den: Den) -> None:
    callers = []
    for name in "abc":
        callers.append(den.call(post(name)))
        den.until(lambda: len(den.forwarder._queue) + len(den.sent) == len(callers))
    for at, name in enumerate("abc"):
        assert [one.path for one in den.sent[at:]] == [f"/{name}"]
        den.answer(den.sent[at])
    assert [one.number for one in den.sent] == [1, 2, 3]
    for caller in callers:
        den.heard(caller, b"{}")
        caller.close()


def test_requests_behind_one_another_are_answered_one_by_one(den: Den) -> None:
    caller = den.call(post("a") + post("b") + post("c", more="Connection: close\r\n"))
    for at in range(3):
        den.until(lambda at=at: len(den.sent) == at + 1)  # type: ignore[misc]
        den.answer(den.sent[at], b"%d" % at)
    assert den.heard(caller, b"\r\n\r\n2").count(b"200 OK") == 3
    den.until(lambda: not den.forwarder._callers)
    caller.close()


def test_a_thousand_requests_that_are_refused_at_once_do_not_call_each_other(den: Den) -> None:
    den.operations.sealed = True
    caller = den.call(post() * 1000)
    data = bytearray()

    def read() -> bool:
        with suppress(BlockingIOError):
            data.extend(caller.recv(2**20))
        return data.count(b'"sealed"') == 1000

    den.until(read)
    assert data.count(b"503 Service Unavailable") == 1000
    assert (den.operations.refused, den.sent) == (1000, [])
    caller.close()


def test_a_command_makes_so_many_calls_and_no_more(den: Den) -> None:
    den.forwarder._numbers[OP] = MAX_CALLS
    caller = den.call(post())
    assert b"429 Too Many Requests" in den.heard(caller, b'calls"}')
    assert den.sent == []
    caller.close()


def test_large_and_slow_bodies_come_whole_and_others_do_not_wait_for_them(den: Den) -> None:
    body = os.urandom(MAX_HTTP_BODY_BYTES)
    slow = den.call(post("slow", body)[:1000])
    den.until(lambda: den.forwarder._callers)
    quick = den.call(post("quick"))
    den.until(lambda: den.sent)
    assert den.sent[0].path == "/quick"
    den.answer(den.sent[0])
    slow.setblocking(True)
    sending = threading.Thread(target=slow.sendall, args=(post("slow", body)[1000:],))
    sending.start()
    den.until(lambda: len(den.sent) == 2)
    sending.join()
    assert den.sent[1].body == body
    slow.setblocking(False)
    den.answer(den.sent[1], body)
    assert den.heard(slow, body[-100:]).endswith(body)
    for caller in (slow, quick):
        caller.close()


def test_nonsense_is_answered_and_ends_its_connection_alone(den: Den) -> None:
    other = den.call(post("other"))
    den.until(lambda: den.sent)
    caller = den.call(b"POST /add HTTP/1.1\r\nHost: tally.world\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n")
    said = den.heard(caller, b"}")
    assert b"501 Not Implemented" in said
    assert b"Connection: close" in said
    assert [one.path for one in den.sent] == ["/other"]
    den.answer(den.sent[0])
    assert den.heard(other, b"{}")
    for one in (caller, other):
        one.close()
    den.until(lambda: not den.forwarder._callers)


def test_who_hangs_up_gets_no_answer_and_its_call_is_carried_out(den: Den) -> None:
    caller = den.call(post())
    den.until(lambda: den.sent)
    caller.close()
    den.answer(den.sent[0])
    den.until(lambda: not den.forwarder._callers)
    again = den.call(post())
    den.until(lambda: len(den.sent) == 2)
    assert den.sent[1].number == 2
    again.close()


def test_so_many_are_spoken_with_and_others_wait_until_one_has_gone(den: Den) -> None:
    callers = [den.call(b"") for _ in range(MAX_CALLERS)]
    den.until(lambda: len(den.forwarder._callers) == MAX_CALLERS)
    last = den.call(post("last"))
    for _ in range(20):
        den.until(lambda: True)
    assert den.sent == []
    callers.pop().close()
    den.until(lambda: den.sent)
    assert den.sent[0].path == "/last"
    for caller in (*callers, last):
        caller.close()


def test_a_host_that_fails_is_a_bad_gateway(den: Den) -> None:
    caller = den.call(post())
    den.until(lambda: den.sent)
    den.forwarder.answered({"id": den.sent[0].id, "error": {"kind": "EnvironmentFailed", "message": "x"}}, b"")
    assert b"502 Bad Gateway" in den.heard(caller, b"}")
    caller.close()


def test_the_holder_of_a_connection_is_found() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as ours:
        host, port = ours.getsockname()
        child = os.fork()
        if child == 0:  # the one that holds it besides us, who do not count
            signal.pause()
        try:
            found = caller_of(host, port, Agent(None, None), looks=10**6)  # all of this machine
            assert found is not None
            assert found.pid == child
            assert caller_of(host, 1, Agent(None, None)) is None
        finally:
            os.kill(child, 9)
            os.waitpid(child, 0)


def test_without_a_holder_it_is_the_command_under_way_or_the_last(den: Den) -> None:
    known = den.operations.known
    known["ep/1/3/0"] = SimpleNamespace(op_id="ep/1/3/0", do="exec", ended=False)
    known["ep/1/3/1"] = SimpleNamespace(op_id="ep/1/3/1", do="read", ended=False)
    for expected in ("ep/1/3/0", "ep/1/4/0"):
        caller = den.call(post())
        before = len(den.sent)
        den.until(lambda before=before: len(den.sent) > before)  # type: ignore[misc]
        assert (den.sent[-1].op_id, den.sent[-1].number) == (expected, 1)
        den.answer(den.sent[-1])
        den.heard(caller, b"{}")
        caller.close()
        for one in known.values():
            one.ended = True
        known["ep/1/4/0"] = SimpleNamespace(op_id="ep/1/4/0", do="exec", ended=True)


class OfTwo(Forwarder):
    """The first connection is of an operation's child that was left behind, the next of the command under way."""

    def _operation_of(self, caller: Caller) -> str:
        caller.op_id = caller.op_id or ("under-way" if self._queue or self._by else "left-behind")
        return caller.op_id


def test_who_waits_behind_a_call_whose_world_is_away_loses_time_too() -> None:
    den, asked = Den(kind=OfTwo), []
    callers = [den.call(post())]
    den.until(lambda: den.sent)
    callers.append(den.call(post()))
    den.until(lambda: den.forwarder._queue)
    den.now_s = 1
    assert den.dealings.excuse("under-way", lambda: asked.append(1)) < 0, "its deadline, while it waits"
    den.now_s = 60
    den.answer(den.sent[0], took_s=2)
    assert asked == [1]
    assert den.dealings.excuse("under-way", lambda: asked.append(2)) == 58
    assert (den.sent[1].op_id, den.sent[1].number) == ("under-way", 1)
    den.answer(den.sent[1])
    assert den.dealings.lost_s == {"left-behind": 58, "under-way": 58}
    for caller in callers:
        caller.close()
    den.forwarder.close()


def test_who_is_refused_waits_no_more(den: Den) -> None:
    waits = [den.call(post("under-way"))]
    den.until(lambda: den.sent)
    waits.append(den.call(post("refused")))
    den.until(lambda: den.forwarder._queue)
    den.operations.sealed = True
    den.answer(den.sent[0])
    assert b"503" in den.heard(waits[1], b"}")
    assert den.dealings._waits == []
    for caller in waits:
        caller.close()
