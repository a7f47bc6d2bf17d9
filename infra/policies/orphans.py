"""Processes that outlived their guardian.

A policy may kill its guardian (``tiltyard.policies.guardian``) and leave a daemon that carries no mark. Linux gives
what a dead guardian leaves to the nearest ancestor that asks for it: the worker's process does. So every child of
the worker that it did not start itself is such an orphan.
"""

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import suppress

import psutil

from tiltyard.policies.guardian import adopt_orphans

__all__ = ["Orphans"]

_ROUNDS, _PAUSE_S = 100, 0.02


class Orphans:
    """Children of this process that it did not start, where it is asked to end them.

    ``adopts`` is for a process that starts no children but through ``start``: any other child would be ended too.
    """

    def __init__(self, *, adopts: bool = False) -> None:
        self._adopts = adopts and adopt_orphans()
        self._starting = threading.Lock()
        self._started: set[int] = set()

    def start(self, start: Callable[[], "subprocess.Popen[bytes]"]) -> "subprocess.Popen[bytes]":
        """Start a child of our own."""
        with self._starting:  # a child that is being started is not yet known as our own
            process = start()
            self._started.add(process.pid)
        return process

    def forget(self, pid: int) -> None:
        """The child has ended and its status was collected: the number may be another process's now."""
        self._started.discard(pid)

    def end(self) -> int:
        """Kill and collect every orphan, and what comes to us from those; how many were alive. Blocks."""
        ended: set[psutil.Process] = set()
        for _ in range(_ROUNDS if self._adopts else 0):
            with self._starting:
                orphans = [one for one in psutil.Process().children() if one.pid not in self._started]
                alive = [one for one in orphans if one.status() != psutil.STATUS_ZOMBIE]
                for one in alive:
                    os.kill(one.pid, signal.SIGKILL)  # its number is its own until we collect it
                for one in orphans:
                    _collect(one.pid)
            if not orphans:
                break
            ended |= set(alive)
            time.sleep(_PAUSE_S)  # what they leave comes to us when they are gone
        return len(ended)


def _collect(pid: int) -> None:
    with suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
