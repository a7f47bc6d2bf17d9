"""Every program that was started, and by which operation."""

from __future__ import annotations

import os
import select

from infra.sandboxes.supervisor.connections import Connections
from infra.sandboxes.supervisor.ends import Ends
from infra.sandboxes.supervisor.execs import arguments_of
from infra.sandboxes.supervisor.files import Agent
from infra.sandboxes.supervisor.kernel import Kernel
from infra.sandboxes.supervisor.limits import (
    MAX_ARGUMENT_BYTES,
    MAX_ARGUMENTS,
    MAX_PROGRAM_BYTES,
    MAX_PROGRAMS,
    SEEN_AT_ONCE,
)
from infra.sandboxes.supervisor.loop import Clock, Loop
from infra.sandboxes.supervisor.notices import let_go_on, listen, receive, send_of, task_of
from infra.sandboxes.supervisor.processes import Process, look, look_at_all, read_file
from infra.sandboxes.supervisor.receipts import Operation

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class Programs:
    """Every program that was started, and which operation it descends from.

    The kernel is asked to stop each exec until it has been looked at, which is to see and not to forbid: what is
    read could be changed before the kernel reads it. Where a machine does not do that, programs are those that
    were alive at a look.
    """

    def __init__(self, kernel: Kernel, loop: Loop, clock: Clock, connections: Connections) -> None:
        self.fd = listen(kernel)
        self._clock, self._connections, self._ends = clock, connections, Ends(loop, clock)
        if self.fd >= 0:
            loop.on(self.fd, self.on_call)
        self.renew()

    def renew(self) -> None:
        """Know of none."""
        self.agent = Agent(None, None)
        self.seen: dict[int, tuple[int, str, int | None]] = {}  # pid: (start, operation, number of its record)
        self.records: list[dict[str, Any] | None] = []
        self.copies: set[int] = set()  # records of processes that had not become a program of their own yet
        self.not_kept = self.kept_bytes = 0
        self.leaders: dict[int, Operation] = {}  # of sessions, also those that have ended: others may be in them
        self.released: dict[int, Process] = {}  # leaders that have not become their programs yet
        self._ends.renew()

    def release(self, leader: Process, operation: Operation) -> None:
        """Expect the program of an operation."""
        self.leaders[leader.pid] = operation
        if self.fd >= 0:
            self.released[leader.pid] = leader
        else:
            self.add(leader, operation.argv, operation.op_id, self._clock.now_s)

    def on_call(self) -> None:
        """One process waits at an exec, or to reach somebody: look at it, let it go on."""
        notice = receive(self.fd)
        if notice is None:
            return
        try:
            record = self._send(notice) if send_of(notice) else self._exec(notice)
        except (OSError, ValueError, OverflowError):
            record = None
        if let_go_on(self.fd, notice) and record is not None:
            record()

    def on_all_calls(self) -> None:
        """Let go on whoever waits now."""
        waiting = select.poll()
        if self.fd >= 0:
            waiting.register(self.fd, select.POLLIN)
            for _ in range(SEEN_AT_ONCE):
                if not any(event & select.POLLIN for _, event in waiting.poll(0)):
                    break
                self.on_call()

    def note_ends(self) -> None:
        """Note whoever has ended by now."""
        self._ends.note()

    def _process_of(self, pid: int) -> Process | None:
        """The process of a task, which may be one of its threads."""
        task = look(pid)
        return look(process_of(pid)) if task is not None and task.is_thread else task

    def _exec(self, notice: bytearray) -> Callable[[], None] | None:
        """What records it, once it goes on; ``None`` for what is no program."""
        pid, now_s = task_of(notice), self._clock.now_s  # before it goes on: it runs when we come to note that
        leader = self.released.pop(pid, None)
        if leader is not None:  # it is a copy of the supervisor still
            operation = self.leaders[pid]
            return lambda: self.add(leader, operation.argv, operation.op_id, now_s)
        process = self._process_of(pid)
        if process is None:
            return None
        op_id = self.operation_of(process)
        with self.agent:  # only its own memory is open to us where we are another user
            argv = arguments_of(notice)
        return None if argv is None else lambda: self.add(process, argv, op_id, now_s)

    def _send(self, notice: bytearray) -> Callable[[], None] | None:
        """The same, for an attempt to reach somebody; ``None`` for what is not told of."""
        with self.agent:
            attempts = self._connections.read(notice)
        sender = self._process_of(task_of(notice)) if attempts else None
        if sender is None:
            return None
        op_id = self.operation_of(sender)
        return lambda: self._connections.add(attempts, op_id)

    def add(self, process: Process, argv: list[str], op_id: str, started_s: float) -> None:
        """Record that a process has become a program, which it did not before ``started_s``."""
        start, _, known = self.seen.get(process.pid, (0, "", None))
        record = self.records[known] if known is not None and start == process.start else None
        if record is not None and known in self.copies:  # it was seen between its fork and this
            record["argv"] = argv
            self.copies.discard(known)
            return
        record = {
            "pid": process.pid, "parent": process.parent, "argv": argv, "op_id": op_id, "left": False,
            "started_s": started_s, "ended_s": None,
        }  # fmt: skip
        size = sum(map(len, argv))
        kept = None
        if len(self.records) < MAX_PROGRAMS and self.kept_bytes + size <= MAX_PROGRAM_BYTES:
            kept = len(self.records)
            self.records.append(record)
            self.kept_bytes += size
        else:
            self.not_kept += 1
        if len(self.seen) > 2 * MAX_PROGRAMS:
            alive = {one.pid for one in look_at_all()}
            self.seen = {pid: seen for pid, seen in self.seen.items() if pid in alive}
        self.seen[process.pid] = (process.start, op_id, kept)
        self._ends.watch(process.pid, record)

    def operation_of(self, process: Process) -> str:
        """By itself, the nearest parent that is known, or the leader of its session; empty when it has left all."""
        session, me = process.session, os.getpid()
        one: Process | None = process
        while one is not None and one.pid not in (0, 1, me):
            seen = self.seen.get(one.pid)
            if seen is not None and seen[0] == one.start:
                return seen[1]
            one = look(one.parent)
        leader = self.leaders.get(session)
        return leader.op_id if leader is not None else ""

    def forget(self, pid: int) -> None:
        """The program of this leader has not been started after all."""
        _, _, number = self.seen.pop(pid, (0, "", None))
        if number is not None:
            self.records[number] = None

    def look_around(self, others: list[Process], left: bool = False) -> None:
        """Record who is there and not known. ``left``: at the seal."""
        for process in others:
            start, _, number = self.seen.get(process.pid, (0, "", None))
            if start != process.start and (left or self.fd < 0):
                self.add(process, command_line(process.pid), self.operation_of(process), self._clock.now_s)
                number = self.seen[process.pid][2]
                if number is not None and self.fd >= 0:
                    self.copies.add(number)
            record = self.records[number] if number is not None else None
            if left and record is not None:
                record["left"] = True


def process_of(thread: int) -> int:
    """The process that a thread belongs to."""
    for line in read_file(f"/proc/{thread}/status").splitlines():
        if line.startswith(b"Tgid:"):
            return int(line[5:])
    return thread


def command_line(pid: int) -> list[str]:
    try:
        data = read_file(f"/proc/{pid}/cmdline", MAX_ARGUMENT_BYTES)
    except OSError:
        return []
    return [part.decode("utf-8", "replace") for part in data.rstrip(b"\0").split(b"\0")[:MAX_ARGUMENTS]]
