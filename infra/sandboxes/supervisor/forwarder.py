"""The world of the episode as programs in the sandbox reach it: HTTP on a loopback address, sent on to the host.

Each call is numbered under the operation that its program descends from, and the number is written down before
anything is sent. What is not answered is sent again under its number, to whichever host comes next. One is under
way at a time: calls take effect in the order of their numbers.
"""

from __future__ import annotations

import os
import select
import time

from infra.sandboxes.supervisor.callers import caller_of
from infra.sandboxes.supervisor.dealings import Wait
from infra.sandboxes.supervisor.hypertext import (
    GO_ON,
    HttpRequest,
    HttpRequests,
    Malformed,
    http_answer,
    http_refusal,
)
from infra.sandboxes.supervisor.limits import MAX_CALLERS, MAX_CALLS, PIPE_BYTES
from infra.sandboxes.supervisor.messages import Failure, dumps
from infra.sandboxes.supervisor.operations import Operations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

ADDRESS, PORT = "127.0.0.1", 80
WAITING_CALLERS = 64  # in the kernel, until one of those that are spoken with has gone
READS = ("GET", "HEAD")
LINGER_S = 2.0


class Forwarder:
    """Listens to programs in the sandbox. ``ask`` sends a frame (JSON, tail) to the host, if there is one."""

    def __init__(
        self,
        operations: Operations,
        ask: Callable[[bytes, bytes], None],
        port: int = PORT,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        import _socket  # only where it is needed: most tasks expose nothing

        self.operations, self.sandbox = operations, operations.sandbox
        self._ask, self._now_s = ask, now_s
        self._asked = 0
        self._sent: tuple[bytes, bytes] | None = None
        self._by: tuple[Caller, Wait] | None = None  # whose request is under way
        self._chooses = False
        self._queue: list[tuple[Caller, Wait]] = []
        self._callers: set[Caller] = set()
        self._numbers: dict[str, int] = {}
        self._socket = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM | _socket.SOCK_CLOEXEC)
        try:
            self._socket.setsockopt(_socket.SOL_SOCKET, _socket.SO_REUSEADDR, 1)
            self._socket.bind((ADDRESS, port))
            self._socket.listen(WAITING_CALLERS)
        except OSError as error:
            self._socket.close()
            raise Failure("EnvironmentFailed", f"nothing can listen on {ADDRESS}:{port}: {error}") from None
        self.address = self._socket.getsockname()
        self._socket.setblocking(False)
        self.sandbox.loop.on(self._socket.fileno(), self._meet)

    def close(self) -> None:
        """Hang up on everybody, and listen to nobody any more."""
        for caller in list(self._callers):
            caller.close()
        self._queue.clear()
        self._sent = self._by = None
        self.sandbox.loop.forget(self._socket.fileno())
        self._socket.close()

    def _meet(self) -> None:
        try:
            fd, (host, port) = self._socket._accept()  # type: ignore[attr-defined]  # typeshed knows the one of socket
        except OSError:
            return  # it has gone again
        self._callers.add(Caller(self, fd, host, port))
        if len(self._callers) >= MAX_CALLERS:
            self.sandbox.loop.forget(self._socket.fileno())

    def left(self, caller: Caller) -> None:
        """A connection has ended."""
        self._callers.discard(caller)
        self.sandbox.loop.on(self._socket.fileno(), self._meet)

    def add(self, caller: Caller, request: HttpRequest) -> None:
        """A request of this one is whole, and waits for its turn. Whose it is takes a while to find, and does not
        matter of a call that is too late."""
        op_id = "" if self._is_late(request) else self._operation_of(caller)
        self._queue.append((caller, self.sandbox.dealings.wait(op_id, self._now_s())))
        self._next()

    def _next(self) -> None:
        """Begin with the next one. What is answered at once brings the next of its connection, and so on: that is
        for the loop here, not for a call within the call."""
        if self._chooses:
            return
        self._chooses = True
        try:
            while self._by is None and self._queue:
                caller, wait = self._queue.pop(0)
                request = caller.request
                if request is not None and not self._refuse(caller, request, wait.op_id):
                    self._begin(caller, request, wait)
                else:
                    self.sandbox.dealings.leave(wait)
        finally:
            self._chooses = False

    def _refuse(self, caller: Caller, request: HttpRequest, op_id: str) -> bool:
        """Answer a call that is not carried out here; whether it is one."""
        if self._is_late(request):
            self.operations.refused += 1
            caller.answer(503, http_refusal("sealed", "the episode has ended"))
        elif request.method not in READS and self._numbers.get(op_id, 0) >= MAX_CALLS:
            caller.answer(429, http_refusal("too_many_calls", f"one command makes at most {MAX_CALLS} calls"))
        else:
            return False
        return True

    def _is_late(self, request: HttpRequest) -> bool:
        return self.operations.sealed and request.method not in READS

    def _begin(self, caller: Caller, request: HttpRequest, wait: Wait) -> None:
        op_id, number = wait.op_id, 0
        if request.method not in READS:
            number = self._numbers[op_id] = self._numbers.get(op_id, 0) + 1
            self.sandbox.journal.write("forwarded", op=op_id, number=number)
        self._asked += 1
        asked = {
            "id": self._asked, "do": "world", "op_id": op_id, "number": number, "host": request.host,
            "method": request.method, "path": request.path, "body": {"bytes": len(request.body)},
            "elsewhere_s": self.sandbox.dealings.elsewhere_s,
        }  # fmt: skip
        self._by, self._sent = (caller, wait), (dumps(asked).encode("ascii"), request.body)
        self.sandbox.dealings.begin(self._now_s())
        self.send()

    def send(self) -> None:
        """Send what is under way; again to a host that is new."""
        if self._sent is not None:
            self._ask(*self._sent)

    def answered(self, answer: dict[str, Any], tail: bytes) -> None:
        """The host has answered."""
        if self._by is None or answer["id"] != self._asked:
            return  # by a host that was asked again meanwhile
        (caller, wait), said = self._by, answer.get("ok")
        self._by = self._sent = None
        if said is None:
            said = {"status": 502, "took_s": 0.0}
            tail = http_refusal("gateway_failed", "the service cannot be reached")
        if "now_s" in said:
            self.sandbox.dealings.clock = {"now_s": said["now_s"], "elsewhere_s": said["elsewhere_s"]}
        self.sandbox.dealings.end(wait, self._now_s(), said["took_s"])
        caller.answer(said["status"], tail)
        self._next()

    def _operation_of(self, caller: Caller) -> str:
        """By whoever calls; else the operation that is under way, or was last."""
        if not caller.op_id:
            process = caller_of(caller.host, caller.port, self.sandbox.agent)
            caller.op_id = self.sandbox.programs.operation_of(process) if process is not None else ""
        if caller.op_id:
            return caller.op_id
        commands = [operation for operation in self.operations.known.values() if operation.do == "exec"]
        running = [operation for operation in commands if not operation.ended]
        return (running or commands)[-1].op_id if commands else ""


class Caller:
    """One connection of a program. ``request`` is the one that it waits for the answer to, ``op_id`` the operation
    that the program descends from, once that is known."""

    def __init__(self, forwarder: Forwarder, fd: int, host: str, port: int) -> None:
        self.fd, self.host, self.port = fd, host, port
        self.request: HttpRequest | None = None
        self.op_id = ""
        self._forwarder, self._loop = forwarder, forwarder.sandbox.loop
        self._requests = HttpRequests()
        self._out = memoryview(b"")
        self._ends = self._closed = False
        os.set_blocking(fd, False)
        os.set_inheritable(fd, False)
        self._listen()

    def answer(self, status: int, body: bytes) -> None:
        """Answer its request; the next one is read when the answer has been taken."""
        request, self.request = self.request, None
        if not self._closed and request is not None:
            self._ends = request.last
            self._put(http_answer(status, body, request.last, request.method == "HEAD"))

    def close(self) -> None:
        """Again: nothing happens."""
        if not self._closed:
            self._closed, self.request = True, None
            self._loop.forget(self.fd)
            os.close(self.fd)
            self._forwarder.left(self)

    def _listen(self) -> None:
        self._loop.on(self.fd, self._hear)

    def _hear(self) -> None:
        data = b""
        try:
            data = os.read(self.fd, PIPE_BYTES)
        except BlockingIOError:
            return
        except OSError:
            pass  # it was reset
        if not data:
            self.close()
        elif not self._ends:
            self._requests.feed(data)
            self._read()

    def _read(self) -> None:
        """Take the next request that is whole. What is sent behind it waits in the kernel until it is answered."""
        try:
            request = self._requests.next()
        except Malformed as malformed:
            self._ends = True
            self._put(http_answer(malformed.status, http_refusal("bad_request", malformed.message), True))
            return
        if request is not None:
            self._loop.forget(self.fd)
            self.request = request
            self._forwarder.add(self, request)
        elif self._requests.must_go_on:
            self._requests.must_go_on = False
            self._put(GO_ON)
        else:
            self._listen()

    def _put(self, data: bytes) -> None:
        self._out = memoryview(data)
        self._write()

    def _write(self) -> None:
        try:
            while self._out:
                self._out = self._out[os.write(self.fd, self._out) :]
        except BlockingIOError:
            self._loop.on(self.fd, self._write, select.POLLOUT)
        except OSError:
            self.close()  # nobody reads the answer any more
        else:
            self._go_on()

    def _go_on(self) -> None:
        """One who has been sent nonsense may be sending still, and would lose the answer if this were closed."""
        if not self._ends:
            self._read()
        elif self._requests.is_broken:
            self._loop.after(LINGER_S, self.close)
            self._listen()
        else:
            self.close()
