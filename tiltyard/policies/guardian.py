"""A process between a worker and a policy, so that nothing which a policy starts outlives it.

The guardian forks the policy and waits. When the policy ends, when it is told to (TERM), or when the worker dies,
it ends every descendant and then itself. On Linux it is a subreaper: a daemon that has left its group and its
session comes back to it, and the end of its own children proves that none is left. Elsewhere it ends its child,
and the worker looks for the others by the mark in their environment.

It runs before any code of the policy, with the standard library alone.
"""

import ctypes
import os
import signal
import sys
import time
from pathlib import Path
from types import FrameType

__all__ = ["GRACE_S", "adopt_orphans", "guard"]

GRACE_S = 0.5
"""Seconds between TERM and KILL."""

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36


class _Told(BaseException):
    """TERM has arrived: from the worker, or from the kernel because the worker died."""


def guard(parent: int) -> None:
    """Fork. Returns in the child, which is to become the policy; the guardian itself never returns.

    ``parent`` is the worker's process id. The guardian exits with the policy's status, 128 and the signal's
    number for a policy that a signal ended.
    """
    signal.signal(signal.SIGTERM, _tell)
    adopt_orphans()
    _tie_to(parent, signal.SIGTERM)
    guardian, policy = os.getpid(), os.fork()
    if policy == 0:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        _tie_to(guardian, signal.SIGKILL)
        return
    status = 128 + signal.SIGTERM
    try:
        _let_go_of_the_pipes()
        status = _status_of(policy)
    except _Told:
        pass
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    _end_all(policy)
    os._exit(status)


def adopt_orphans() -> bool:
    """Have orphaned descendants become children of this process; false where that cannot be had."""
    _control(_PR_SET_CHILD_SUBREAPER, 1)
    return sys.platform == "linux"


def _tell(number: int, frame: FrameType | None) -> None:
    raise _Told


def _control(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _tie_to(parent: int, number: int) -> None:
    """Have the kernel send a signal when the parent dies (Linux); end at once when it already has."""
    _control(_PR_SET_PDEATHSIG, number)
    if os.getppid() != parent:
        os._exit(1)


def _let_go_of_the_pipes() -> None:
    """The pipes are the policy's: the guardian must not keep them open."""
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    os.close(null)


def _status_of(policy: int) -> int:
    while True:
        pid, status = os.waitpid(-1, 0)
        if pid == policy:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code


def _end_all(policy: int) -> None:
    kill_from = time.monotonic() + GRACE_S
    number = signal.SIGTERM
    _signal(_children(policy), number)
    while _reap():
        if time.monotonic() >= kill_from:
            _signal(_children(policy), signal.SIGKILL)
        time.sleep(0.01)


def _reap() -> bool:
    """Collect the children that have ended; whether any are left. Orphans of the ended come back as children."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True


def _signal(pids: list[int], number: int) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue


def _children(policy: int) -> list[int]:
    """This process's children; where there is no ``/proc``, the one that is known."""
    stats = list(Path("/proc").glob("[0-9]*/stat"))
    return [int(stat.parent.name) for stat in stats if _parent(stat) == os.getpid()] if stats else [policy]


def _parent(stat: Path) -> int:
    try:
        return int(stat.read_text(errors="replace").rpartition(")")[2].split()[1])
    except (OSError, IndexError, ValueError):
        return 0
