"""The forwarder in this process: requests are numbered, sent one by one, and answered to whoever asked."""

import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from types import SimpleNamespace

import pytest

from infra.sandboxes.supervisor.callers import caller_of
from infra.sandboxes.supervisor.files import Agent
from infra.sandboxes.supervisor.forwarder import Caller, Forwarder
from infra.sandboxes.supervisor.limits import MAX_CALLERS, MAX_CALLS, MAX_HTTP_BODY_BYTES
from tests.unit.sandboxes.forwarder_den import OP, Den, Sent, post


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
