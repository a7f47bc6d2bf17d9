"""Reads of marked files, as the kernel tells of them.

inotify watches a file and not its name: it is told of wherever it is moved, by hard links, and through whichever
link or descriptor it is opened. What it does not tell is who: whoever has the file open when it is looked is taken
for the reader, and else the operation that was under way; a read without an opening is then that of whoever
opened it last. A look takes a while: there is one for all that is told at once, and another one for what is told
later, when it may be somebody else.
"""

from __future__ import annotations

import os
import stat

from infra.sandboxes.supervisor.copying import READABLE, is_closed
from infra.sandboxes.supervisor.files import Agent, Parent, open_file
from infra.sandboxes.supervisor.kernel import Kernel
from infra.sandboxes.supervisor.limits import MAX_MARKS, MAX_READS, PIPE_BYTES
from infra.sandboxes.supervisor.loop import Clock
from infra.sandboxes.supervisor.messages import Refused
from infra.sandboxes.supervisor.processes import Process
from infra.sandboxes.supervisor.receipts import Journal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

INOTIFY_CALLS = {"x86_64": (294, 254), "aarch64": (26, 27)}  # inotify_init1, inotify_add_watch
IN_ACCESS, IN_OPEN, IN_Q_OVERFLOW = 0x1, 0x20, 0x4000
QUEUE_READS = 8  # then all has been read that was there at the beginning, in pieces of PIPE_BYTES
EVENT_BYTES = 16  # of a struct inotify_event without a name, as those of files are

File = tuple[int, int]
"""(device, inode)."""

Reader = tuple["Process | None", str]
"""(process, operation)."""


class Marks:
    """Marked files, and each reading of one. ``find`` tells who has a file open."""

    def __init__(
        self, kernel: Kernel, clock: Clock, journal: Journal, find: Callable[[File], Reader | None]
    ) -> None:
        self._kernel, self._clock, self._find = kernel, clock, find
        self.fd = -1
        self.renew(journal)

    def renew(self, journal: Journal) -> None:
        """Know of none. ``fd`` is not ours any more."""
        self._journal, self.fd = journal, -1
        self.under_way: set[str] = set()  # operations
        self.unwatched: list[str] = []
        self.records: dict[tuple[str, str], dict[str, Any]] = {}
        self._last: dict[int, dict[str, Any]] = {}  # by the number of the watch
        self.not_kept = 0  # openings
        self.lost = False
        self._marked: dict[int, tuple[str, File]] = {}  # by the number of the watch: what it is called, and is

    def watch(self, work: int, marked: dict[str, str]) -> None:
        """Be told of these files: by their paths, each with the path that it is told by."""
        calls = INOTIFY_CALLS.get(os.uname().machine)
        if marked and calls is not None:
            self.fd = self._kernel.call(calls[0], os.O_CLOEXEC | os.O_NONBLOCK)
        for path, called in marked.items():
            try:
                number, file = (-1, (0, 0)) if self.fd < 0 or calls is None else self._watched(work, path, calls[1])
            except (OSError, Refused):
                number, file = -1, (0, 0)
            if number < 0 or len(self._marked) >= MAX_MARKS:
                self.unwatched = sorted({*self.unwatched, called})
            else:
                self._marked[number] = called, file

    def _watched(self, work: int, path: str, add_watch: int) -> tuple[int, File]:
        """(the number of the watch, the file). One that is closed to its owner is opened for the moment."""
        with Parent(work, path) as parent:
            mode = os.stat(parent.name, dir_fd=parent.fd, follow_symlinks=False).st_mode
            closed = stat.S_ISREG(mode) and is_closed(mode, READABLE)
            if closed:
                os.chmod(parent.name, stat.S_IMODE(mode) | READABLE, dir_fd=parent.fd)
            try:
                fd, about = open_file(parent.name, parent.fd)
                name = f"/proc/self/fd/{fd}".encode()
                number = self._kernel.call(add_watch, self.fd, name, IN_OPEN | IN_ACCESS)
                os.close(fd)
            finally:
                if closed:
                    os.chmod(parent.name, stat.S_IMODE(mode), dir_fd=parent.fd)
        return number, (about.st_dev, about.st_ino)

    def begin(self, op_id: str) -> None:
        """An operation is under way from here on."""
        self.collect()
        self.under_way.add(op_id)

    def finish(self, op_id: str) -> None:
        self.collect()
        self.under_way.discard(op_id)

    def collect(self, counts: bool = True, op_id: str = "") -> None:
        """Record what has been told of. Where it does not count, we have opened them ourselves; where ``op_id`` is
        given, for that operation."""
        readers: dict[int, Reader | None] = {}  # by the number of the watch, once it has been looked
        for _ in range(QUEUE_READS if self.fd >= 0 else 0):
            try:
                data = os.read(self.fd, PIPE_BYTES)
            except BlockingIOError:
                return
            for at in range(0, len(data) if counts else 0, EVENT_BYTES):
                number = int.from_bytes(data[at : at + 4], "little", signed=True)
                what = int.from_bytes(data[at + 4 : at + 8], "little")
                self.lost = self.lost or bool(what & IN_Q_OVERFLOW)
                if number in self._marked and what & (IN_OPEN | IN_ACCESS):
                    if number not in readers:
                        readers[number] = (None, op_id) if op_id else self._find(self._marked[number][1])
                    self._add(number, readers[number], bool(what & IN_OPEN))

    def _add(self, number: int, reader: Reader | None, opened: bool) -> None:
        record = self._last.get(number) if reader is None and not opened else None
        if record is None:
            record = self._record(self._marked[number][0], *(reader or (None, self._only())))
        if record is not None:
            record["opens" if opened else "reads"] += 1
            self._last[number] = record
        elif opened:
            self.not_kept += 1

    def _only(self) -> str:
        """The operation that is under way, if there is one and no other."""
        return next(iter(self.under_way)) if len(self.under_way) == 1 else ""

    def _record(self, called: str, process: Process | None, op_id: str) -> dict[str, Any] | None:
        """The record of this reader, unless it is new and no more are kept."""
        record = self.records.get((called, op_id))
        if record is None and len(self.records) < MAX_READS:
            who = {"path": called, "op_id": op_id, "pid": process.pid if process is not None else None}
            self._journal.write("read_marked", **who)
            record = self.records[called, op_id] = {**who, "opens": 0, "reads": 0, "first_s": self._clock.now_s}
        return record


def who_has_open(file: File, others: list[Process], agent: Agent) -> Process | None:
    """One of the others that has this file open. Whoever is another user can see that of its own processes only."""
    with agent:
        return next((process for process in others if has_open(process.pid, file)), None)


def has_open(pid: int, file: File) -> bool:
    try:
        names = os.listdir(f"/proc/{pid}/fd")
    except OSError:
        return False  # it has ended, or is closed to us
    for name in names:
        try:
            about = os.stat(f"/proc/{pid}/fd/{name}")
        except OSError:
            continue
        if (about.st_dev, about.st_ino) == file:
            return True
    return False
