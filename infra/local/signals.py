"""Signals as something to wait for: a process with one loop wakes at once when a child dies or it shall end."""

import os
import select
import signal
from types import FrameType


class Signals:
    """Installs handlers for this process; make one, in the main thread, before the loop.

    ``asked`` becomes true with SIGTERM or SIGINT. A hang-up is ignored: the process has no terminal.
    """

    def __init__(self) -> None:
        self.asked = False
        self._reader, writer = os.pipe()
        for end in (self._reader, writer):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.signal(signal.SIGCHLD, self._wake)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._ask)

    def wait(self, limit_s: float) -> None:
        """Return after ``limit_s`` or at the next signal."""
        if select.select([self._reader], [], [], limit_s)[0]:
            os.read(self._reader, 4096)

    def _wake(self, number: int, frame: FrameType | None) -> None:
        """Nothing to do: the wake-up pipe has ended the wait."""

    def _ask(self, number: int, frame: FrameType | None) -> None:
        self.asked = True
