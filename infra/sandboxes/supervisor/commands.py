"""Commands in flight: a child each, from its fork to its result."""

# ruff: noqa: SIM105 - contextlib would have to be loaded
from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # typeshed knows it as signal, which loads enum
import binascii
import errno
import fcntl
import os
import time

from infra.sandboxes.supervisor.limits import PIPE_BYTES
from infra.sandboxes.supervisor.loop import Timer
from infra.sandboxes.supervisor.messages import Refused, bad, is_no_utf8
from infra.sandboxes.supervisor.output import Capture
from infra.sandboxes.supervisor.processes import kill_session, look
from infra.sandboxes.supervisor.receipts import Operation
from infra.sandboxes.supervisor.recipe import READY, stdin_of
from infra.sandboxes.supervisor.sandbox import Sandbox

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

SIGNALS = {getattr(_signal, name): name for name in reversed(dir(_signal)) if name[:3] == "SIG" and name[3] != "_"}
FIONREAD = 0x541B


def check_exec(wanted: dict[str, Any]) -> tuple[float, bytes]:
    argv, timeout_s = wanted["argv"], float(wanted["timeout_s"])
    if not isinstance(argv, list) or not argv or not all(isinstance(one, str) for one in argv):
        raise bad("is no list of arguments", "argv")
    if any(is_no_utf8(one) for one in argv):
        raise bad("is no UTF-8", "argv")
    return timeout_s, binascii.a2b_base64(wanted.get("stdin", ""))


def begin_exec(sandbox: Sandbox, operation: Operation, timeout_s: float, data: bytes) -> None:
    """Fork, record that it has started, and only then release it."""
    fds: list[int] = []  # the child's ends, which are closed here in any case
    ours: list[int] = []
    try:
        fds.append(stdin_of(data))
        with sandbox.agent:  # or /dev/stdout, which opens the pipe once more, would be closed to the command
            for _ in range(3):  # stdout, stderr, status
                read, write = os.pipe()
                ours.append(read)
                fds.append(write)
        gate, release = os.pipe()
        ours.append(release)
        fds.append(gate)
        pid = os.fork()
        if pid == 0:
            become(sandbox, operation, fds)
    except OSError as error:
        for fd in ours:
            os.close(fd)
        raise Refused("cannot_start", cannot_start(operation, error.errno or 0)) from None
    finally:
        for fd in fds:
            os.close(fd)
    Command(sandbox, operation, pid, ours).watch(timeout_s)


def become(sandbox: Sandbox, operation: Operation, fds: list[int]) -> NoReturn:
    """In the child: be the program, or say why not."""
    *streams, status, gate = fds
    try:
        if sandbox.programs.fd >= 0:
            os.close(sandbox.programs.fd)  # or it would wait for itself once the supervisor is gone
        argv = [argument.encode() for argument in operation.argv]
        sandbox.recipe.become(sandbox.kernel, argv, streams, status, gate, sandbox.scores.proc)
    except OSError as error:
        os.write(status, READY + str(error.errno).encode())
    except BaseException:
        os.write(status, READY + str(errno.EINVAL).encode())
    finally:
        os._exit(127)


def cannot_start(operation: Operation, number: int) -> str:
    return f"{operation.argv[0][:200]}: {os.strerror(number)}"


class Command:
    """One command in flight. ``ours`` are its outputs, its status, and what releases it."""

    def __init__(self, sandbox: Sandbox, operation: Operation, pid: int, ours: list[int]) -> None:
        self.sandbox, self.operation, self.pid = sandbox, operation, pid
        *self.pipes, self.status, self.release = ours
        self.outputs: dict[int, Capture] = {}
        self.read_to_end: set[int] = set()  # outputs that are closed: by now these numbers may be somebody else's
        self.said = b""
        self.timed_out = False
        self.began = self.timeout_s = 0.0
        self.deadline: Timer | None = None

    def watch(self, timeout_s: float) -> None:
        sandbox, loop = self.sandbox, self.sandbox.loop
        leader = look(self.pid)
        sandbox.marks.begin(self.operation.op_id)
        self.operation.start(pid=self.pid, starttime=leader.start if leader else 0)
        sandbox.children.expected[self.pid] = self.on_end
        if leader is not None:
            sandbox.programs.release(leader, self.operation)
        for fd in (*self.pipes, self.status):
            os.set_blocking(fd, False)
        loop.on(self.status, self.on_status)
        for fd in self.pipes:
            self.outputs[fd] = Capture(sandbox.limits["output_bytes"])
            loop.on(fd, lambda fd=fd: self.on_output(fd))  # type: ignore[misc]
        self.began, self.timeout_s = time.monotonic(), min(timeout_s, sandbox.limits["command_s"])
        self.deadline = loop.after(self.timeout_s, self.on_timeout)

    def on_status(self) -> None:
        """Release a child that is ready. Later there may be an error, which is read when it has ended.

        Its number came before anybody else could write there; for the rest of it, others may have.
        """
        self.said += self._heard()
        name, ready, _ = self.said.partition(READY)
        if not ready:
            return
        self.sandbox.loop.forget(self.status)
        if name:
            with self.sandbox.agent:  # whose file it is
                self.sandbox.scores.first_is(name)
        self._let_go(b"!")

    def _heard(self) -> bytes:
        try:
            return os.read(self.status, 64)
        except BlockingIOError:
            return b""  # somebody holds the other end; the command itself has let go of it

    def _let_go(self, word: bytes = b"") -> None:
        if self.release < 0:
            return
        try:
            os.write(self.release, word)
        except OSError:
            pass  # it was killed before
        os.close(self.release)
        self.release = -1

    def on_output(self, fd: int, limit: int = PIPE_BYTES) -> None:
        try:
            data = os.read(fd, limit)
        except BlockingIOError:
            return
        self.outputs[fd].feed(data)
        if not data:
            self.read_to_end.add(fd)
            self.sandbox.loop.off(fd)

    def on_timeout(self) -> None:
        if self.operation.ended:
            return
        more_s = self.sandbox.dealings.excuse(self.operation.op_id, self.on_timeout)
        if more_s > 0:
            self.deadline = self.sandbox.loop.after(more_s, self.on_timeout)
        elif more_s == 0:
            self.timed_out = True
            kill_session(self.pid)

    def on_end(self, status: int) -> None:
        """The leader has ended; whatever it left behind may hold its outputs open for ever."""
        sandbox, operation = self.sandbox, self.operation
        if self.deadline is not None:
            self.deadline.cancel()
        sandbox.programs.released.pop(self.pid, None)
        failure = self._failure()
        sandbox.loop.forget(self.status)
        os.close(self.status)
        self._let_go()
        stdout, stderr = [self.last_output(fd) for fd in self.outputs]
        sandbox.marks.finish(operation.op_id)
        if failure.isdigit():
            sandbox.programs.forget(self.pid)
            return operation.end({"code": "cannot_start", "message": cannot_start(operation, int(failure))})
        if sandbox.programs.fd < 0:
            sandbox.programs.look_around(sandbox.reach.others())
        self._record(status)
        return operation.end({"exec": self._result(stdout, stderr)})

    def _record(self, status: int) -> None:
        """How it ended, and what it had said by then, for the facts."""
        if os.WIFSIGNALED(status):
            self.operation.signal = SIGNALS.get(os.WTERMSIG(status), f"signal {os.WTERMSIG(status)}")
        else:
            self.operation.exit_code = os.WEXITSTATUS(status)
        stdout, stderr = self.outputs.values()
        self.operation.outputs = {"stdout": stdout.record(), "stderr": stderr.record()}

    def _result(self, stdout: dict[str, Any], stderr: dict[str, Any]) -> dict[str, Any]:
        """As ``schemas.operation.ExecResult``."""
        operation = self.operation
        result = {
            "exit_code": operation.exit_code, "signal": operation.signal, "timed_out": self.timed_out,
            "stdout": stdout, "stderr": stderr,
            "timeout_s": self.timeout_s, "duration_s": round(time.monotonic() - self.began, 6),
        }  # fmt: skip
        if (seen := self.sandbox.dealings.seen(operation.op_id)) is not None:
            result["world"] = seen
        return result

    def _failure(self) -> bytes:
        """The error that kept it from its program, as a number, if there was one. Of a child that was killed before
        it was ready there is only its own number, which is none of an error."""
        _, ready, error = (self.said + self._heard()).rpartition(READY)
        return error[:4] if ready else b""

    def last_output(self, fd: int) -> dict[str, Any]:
        """What is in the pipe at this moment, and no more: somebody may go on writing."""
        if fd not in self.read_to_end:
            waiting = bytearray(4)
            fcntl.ioctl(fd, FIONREAD, waiting)
            self.on_output(fd, int.from_bytes(waiting, "little") or 1)
        if fd not in self.read_to_end:
            self.sandbox.loop.off(fd)
        return self.outputs[fd].output()
