"""When programs have ended, whoever their parent is: the kernel tells it on a descriptor of the process."""

from __future__ import annotations

import os
import select

from infra.sandboxes.supervisor.limits import MAX_ENDS_WATCHED
from infra.sandboxes.supervisor.loop import Clock, Loop

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Ends:
    """Notes ``ended_s`` in records of programs. Of more than can be watched at once it stays unknown."""

    def __init__(self, loop: Loop, clock: Clock) -> None:
        self._loop, self._clock = loop, clock
        self._watched: dict[int, tuple[int, dict[str, Any]]] = {}  # by process: its descriptor, its last program

    def renew(self) -> None:
        """Watch none."""
        for fd, _ in self._watched.values():
            self._loop.off(fd)
        self._watched.clear()

    def watch(self, pid: int, record: dict[str, Any]) -> None:
        """The process is this program from now on, and ended to be the one before."""
        self._note(pid, self._clock.now_s)
        if len(self._watched) >= MAX_ENDS_WATCHED:
            return
        try:
            fd = os.pidfd_open(pid)
        except OSError:
            return  # it is gone, or the machine does not have that
        self._watched[pid] = fd, record
        self._loop.on(fd, self.note)

    def note(self) -> None:
        """Note whoever has ended by now, at one time: no child is told to have ended after who waited for it."""
        found: set[int] | None = None
        while found != (
            found := self._ended()
        ):  # who is asked late may have ended after who is asked first was asked
            pass
        now_s = self._clock.now_s
        for pid in [pid for pid, (fd, _) in self._watched.items() if fd in found]:
            self._note(pid, now_s)

    def _ended(self) -> set[int]:
        ended = select.poll()
        for fd, _ in self._watched.values():
            ended.register(fd, select.POLLIN)
        return {fd for fd, _ in ended.poll(0)}

    def _note(self, pid: int, now_s: float) -> None:
        fd, record = self._watched.pop(pid, (-1, {}))
        if fd >= 0:
            record["ended_s"] = now_s
            self._loop.off(fd)
