"""Receipts: what each operation has done, written down before anybody is told of it."""

from __future__ import annotations

import os

from infra.sandboxes.supervisor.files import write_all
from infra.sandboxes.supervisor.limits import MAX_ARGUMENT_BYTES, MAX_ARGUMENTS
from infra.sandboxes.supervisor.loop import Clock
from infra.sandboxes.supervisor.messages import dumps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


JOURNAL = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
"""How a journal is opened."""


class Journal:
    """Every operation's receipts, a JSON object a line, written before anybody is told of what they say.

    The death of a process loses nothing that was written, and the death of the machine takes the sandbox with it:
    there is no need to wait for the disk, unless the sandbox's files outlive the machine (``sync``).
    Recorded replies are kept here and not in memory, which is the sandbox's own. ``at_s`` is when it was written.
    """

    def __init__(self, fd: int, clock: Clock) -> None:
        self.fd, self.clock, self.end, self.sync = fd, clock, os.fstat(fd).st_size, False

    def write(self, did: str, **fields: Any) -> None:
        self._append(dumps({"did": did, "at_s": self.clock.now_s, **fields}).encode("ascii"))

    def write_reply(self, op_id: str, reply: bytes) -> tuple[int, int]:
        """Record that an operation has ended. Where its reply is."""
        before = dumps({"did": "ended", "at_s": self.clock.now_s, "op": op_id})[:-1].encode("ascii") + b',"reply":'
        start = self.end + len(before)
        self._append(before + reply + b"}")
        return start, len(reply)

    def _append(self, line: bytes) -> None:
        try:
            write_all(self.fd, line + b"\n")
            if self.sync:
                os.fdatasync(self.fd)
        except OSError as error:
            raise JournalLost(f"the journal cannot be written: {error}") from error
        self.end += len(line) + 1

    def read(self, where: tuple[int, int]) -> bytes:
        start, length = where
        reply = os.pread(self.fd, length, start)
        if len(reply) != length:
            raise JournalLost("a recorded reply is not in the journal any more")
        return reply


class JournalLost(Exception):
    """Without a journal no promise can be kept: the supervisor ends, and the sandbox is lost."""


class Operation:
    """One operation from its acceptance on, and its receipts. ``askers`` are requests that wait for its end."""

    __slots__ = (
        "argv", "askers", "digest", "do", "ended", "ended_s", "exit_code", "in_flight", "journal", "op_id",
        "outputs", "path", "reply", "signal", "started", "started_s", "tell",
    )  # fmt: skip

    def __init__(
        self, request: dict[str, Any], digest: str, journal: Journal, tell: Callable[[tuple[int, int], bytes], None]
    ) -> None:
        self.op_id, self.do, self.digest = request["op_id"], request["do"], digest
        self.journal, self.tell = journal, tell
        self.argv: list[str] = request.get("argv", [])
        self.path: str = request.get("path", "")
        self.askers: list[tuple[int, int]] = []
        self.started = self.ended = self.in_flight = False
        self.exit_code: int | None = None
        self.started_s: float | None = None
        self.ended_s: float | None = None
        self.signal = ""
        self.outputs: dict[str, dict[str, Any]] = {}
        self.reply = (0, 0)

    def accept(self) -> None:
        self.journal.write("accepted", op=self.op_id, digest=self.digest, **self._asked())

    def start(self, **process: int) -> None:
        """It takes effect from here on, and not before."""
        self.started, self.started_s = True, self.journal.clock.now_s
        self.journal.write("started", op=self.op_id, **process)

    def end(self, outcome: dict[str, Any]) -> None:
        """Record how it ended, then tell those who wait."""
        reply = dumps({"op_id": self.op_id, **outcome}).encode("ascii")
        self.reply = self.journal.write_reply(self.op_id, reply)
        self.ended, self.ended_s = True, self.journal.clock.now_s
        for number in self.askers:
            self.tell(number, reply)
        self.askers.clear()

    def _asked(self) -> dict[str, Any]:
        """What it is, as it is told later: long arguments are in the turns of the episode, whole."""
        argv = [one[:MAX_ARGUMENT_BYTES] for one in self.argv[:MAX_ARGUMENTS]]
        return {"do": self.do, "argv": argv, "path": self.path}

    def facts(self) -> dict[str, Any]:
        """As ``schemas.told.CommandRecord``."""
        return {
            "op_id": self.op_id, "request_digest": self.digest, **self._asked(),
            "started": self.started, "ended": self.ended and not self.in_flight,
            "exit_code": self.exit_code, "signal": self.signal,
            "started_s": self.started_s, "ended_s": self.ended_s, **self.outputs,
        }  # fmt: skip
