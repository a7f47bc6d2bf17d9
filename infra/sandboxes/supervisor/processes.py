"""Who is there besides the supervisor, as ``/proc`` and the kernel have it, and how all of them are signalled."""

# ruff: noqa: SIM105 - contextlib would have to be loaded
from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # typeshed knows it as signal, which loads enum
import errno
import os
import time

from infra.sandboxes.supervisor.limits import FREEZE_LOOKS, FREEZE_PAUSE_S, PATIENT_LOOKS, SESSION_LOOKS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


class Process:
    """One look at a process. ``start`` in ticks of the boot tells it from another one with its number."""

    __slots__ = ("is_thread", "parent", "pid", "session", "start", "state")

    def __init__(self, pid: int, fields: list[bytes]) -> None:
        self.pid, self.state = pid, fields[0].decode()
        self.parent, self.session, self.start = int(fields[1]), int(fields[3]), int(fields[19])
        self.is_thread = fields[35] == b"-1"  # its exit signal: none but a leader of threads has one

    @property
    def ended(self) -> bool:
        return self.state in "ZXx"


def read_file(path: str, limit: int = 65_536) -> bytes:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(fd, limit)
    finally:
        os.close(fd)


def look(pid: int) -> Process | None:
    """The process as it is now; ``None`` when there is none."""
    try:
        data = read_file(f"/proc/{pid}/stat")
        return Process(pid, data[data.rindex(b")") + 2 :].split())
    except (OSError, ValueError, IndexError):
        return None


def look_at_all() -> list[Process]:
    """Every living process that ``/proc`` shows, but for this one."""
    me = os.getpid()
    found = (look(int(name)) for name in os.listdir("/proc") if name.isdigit() and int(name) != me)
    return [process for process in found if process is not None and not process.ended]


def descendants(everyone: list[Process]) -> list[Process]:
    """Those that descend from this process, which their orphans come to."""
    children: dict[int, list[Process]] = {}
    for process in everyone:
        children.setdefault(process.parent, []).append(process)
    found: list[Process] = []
    todo = [os.getpid()]
    while todo:
        below = children.pop(todo.pop(), [])
        found += below
        todo += [process.pid for process in below]
    return found


def kill_group_of(ended: int) -> None:
    """Kill the group of a child that has ended and has not been waited for: that keeps its number its own."""
    try:
        group = os.getpgid(ended)
        if group != os.getpgrp():
            os.killpg(group, _signal.SIGKILL)
    except OSError:
        pass


def strike(process: Process, number: int) -> None:
    """Signal exactly this process. One that is gone meanwhile, or not ours to signal, is let be."""
    try:
        fd = os.pidfd_open(process.pid)
    except OSError as error:
        if error.errno == errno.ENOSYS:
            os.kill(process.pid, number)
        return
    try:
        now = look(process.pid)
        if now is not None and now.start == process.start:
            _signal.pidfd_send_signal(fd, number)
    except OSError:
        pass
    finally:
        os.close(fd)


class Reach:
    """All others that the supervisor answers for. As PID 1 that is everybody, else its descendants."""

    def __init__(self, pid_one: bool) -> None:
        self.pid_one = pid_one

    def others(self) -> list[Process]:
        everyone = look_at_all()
        return everyone if self.pid_one else descendants(everyone)

    def nobody(self) -> bool:
        """Whether nobody is left, as the kernel has it.

        That a look finds nobody does not say so: one may fork and end faster than it is looked for. But whoever is
        left descends from a child of ours, or has come from outside, which only a look finds.
        """
        try:
            os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return not self.pid_one or not look_at_all()
        return False

    def signal(self, number: int) -> None:
        """Signal all of them. As PID 1 that is one step, which no fork escapes."""
        if not self.pid_one:
            for process in self.others():
                strike(process, number)
            return
        try:
            os.kill(-1, number)
        except OSError:
            pass  # there is nobody

    def freeze(self, meanwhile: Callable[[], None]) -> set[int]:
        """Stop all, and wait until they have stopped. Returns those that had been stopped already."""
        if self.nobody():
            return set()
        before = {process.pid for process in self.others() if process.state in "Tt"}
        for looks in range(FREEZE_LOOKS):
            still = "Tt" if looks < PATIENT_LOOKS else "TtD"  # it waits for one that we have stopped: vfork
            if looks and all(process.state in still for process in self.others()):
                break
            self.signal(_signal.SIGSTOP)
            meanwhile()
            time.sleep(FREEZE_PAUSE_S)
        return before

    def thaw(self, but: set[int]) -> None:
        for process in self.others():
            if process.pid not in but:
                strike(process, _signal.SIGCONT)

    def kill(self) -> None:
        if not self.pid_one:
            self.freeze(lambda: None)  # or one forks while the next is killed
        self.signal(_signal.SIGKILL)


def kill_session(leader: int) -> None:
    """Kill a session. Its number is its own for as long as its leader has not been waited for.

    One that was stopped before it made its session is in ours still: so it is killed by itself too.
    """
    for kill in (os.killpg, os.kill):
        try:
            kill(leader, _signal.SIGKILL)
        except OSError:
            pass
    for _ in range(SESSION_LOOKS):
        found = [process for process in look_at_all() if process.session == leader]
        if not found:
            return
        for process in found:
            strike(process, _signal.SIGKILL)
        time.sleep(FREEZE_PAUSE_S)
