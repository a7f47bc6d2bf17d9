"""Whoever has ended is collected: commands, and orphans, which would fill the limit of processes."""

# ruff: noqa: SIM105 - contextlib would have to be loaded
from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # typeshed knows it as signal, which loads enum
import os

from infra.sandboxes.supervisor.limits import REAPED_AT_ONCE
from infra.sandboxes.supervisor.loop import Loop
from infra.sandboxes.supervisor.processes import kill_group_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


class Children:
    """Children and orphans. ``expected`` are told the status of the child with their number, once.

    While all are being killed (``killing``) it kills the groups of those that it collects, and notes whom a signal
    has ended (``killed``).
    """

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self.renew()
        for number in (_signal.SIGINT, _signal.SIGTERM, _signal.SIGHUP, _signal.SIGQUIT):
            _signal.signal(number, _signal.SIG_IGN)
        self._woken, wake = os.pipe()
        for fd in (self._woken, wake):
            os.set_blocking(fd, False)
        _signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        _signal.signal(_signal.SIGCHLD, lambda *_: None)
        loop.on(self._woken, self.collect)

    def renew(self) -> None:
        """Expect none."""
        self.expected: dict[int, Callable[[int], None]] = {}
        self.killing = False
        self.killed: set[int] = set()

    def collect(self) -> None:
        """Reap a number of them, and the rest after others had their turn."""
        try:
            os.read(self._woken, 512)
        except BlockingIOError:
            pass
        if self.reap() == REAPED_AT_ONCE:
            self._loop.after(0, self.collect)

    def reap(self) -> int:
        """How many were reaped."""
        for count in range(REAPED_AT_ONCE):
            try:
                ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return count
            if ended is None:
                return count
            if self.killing:
                kill_group_of(ended.si_pid)  # one that goes on in a new process all the time is there still
            pid, status = os.waitpid(ended.si_pid, 0)
            if self.killing and os.WIFSIGNALED(status):
                self.killed.add(pid)
            expects = self.expected.pop(pid, None)
            if expects is not None:
                expects(status)
        return REAPED_AT_ONCE
