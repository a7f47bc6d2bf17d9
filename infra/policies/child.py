"""One policy in its own process: started, asked, ended."""

import asyncio
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from infra.policies.orphans import Orphans
from infra.policies.pipes import Inlet, Outlet
from infra.policies.processes import MARK, end
from tiltyard.errors import EnvironmentFailed, PolicyFailed
from tiltyard.ports import Ended

__all__ = ["LIMIT_BYTES", "TAIL_BYTES", "Child", "Launch"]

LIMIT_BYTES = 4 * 1024 * 1024
"""The longest decision, and the most that a policy may log between two decisions."""

TAIL_BYTES = 4096
"""How much of a policy's log is kept for the error message."""

_LAST_WORDS_S = 1.0


@dataclass(frozen=True)
class Launch:
    """How a policy is started: the runner's arguments, where, and with which programs in reach."""

    arguments: tuple[str, ...]
    directory: Path
    search_path: str = os.defpath
    python: str = field(default=sys.executable)

    def command(self) -> list[str]:
        # -P keeps the caller's directory off sys.path until the runner has been imported; -s the user's packages
        return [self.python, "-P", "-s", "-u", "-m", "tiltyard.policies.runner", str(os.getpid()), *self.arguments]

    def environment(self, mark: str) -> Mapping[str, str]:
        """All that the policy is given. Nothing of the worker's own environment is in it (I9)."""
        return {
            "PATH": self.search_path,
            "LANG": "C.UTF-8",
            "HOME": str(self.directory),
            "PYTHONUNBUFFERED": "1",
            "PYTHONHASHSEED": "0",  # so that a set's order is the same in every run (I7)
            MARK: mark,
        }

    def start(self, mark: str) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(
            self.command(),
            cwd=self.directory,
            env=self.environment(mark),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
        )


class Child:
    """A running policy. One question at a time: hold ``lock`` while asking.

    Start and use it on one event loop, in a thread that lives as long as the worker: Linux ends the child with
    the thread that started it.
    """

    def __init__(self, process: "subprocess.Popen[bytes]", mark: str, orphans: Orphans) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        self.lock = asyncio.Lock()
        self._process, self._mark, self._orphans = process, mark, orphans
        self._changed = asyncio.Event()
        self._heard, self._tail, self._logged_bytes = bytearray(), b"", 0
        self._silent = self._ending = False
        self._inlet = Inlet(process.stdin)
        self._answers = Outlet(process.stdout, self._hear)
        self._log = Outlet(process.stderr, self._keep)

    @classmethod
    def start(cls, launch: Launch, orphans: Orphans) -> Self:
        """Raises ``EnvironmentFailed`` when the machine cannot start a process."""
        mark = secrets.token_hex(16)
        try:
            process = orphans.start(lambda: launch.start(mark))
        except OSError as error:
            raise EnvironmentFailed(f"cannot start a policy's process: {error}") from error
        return cls(process, mark, orphans)

    async def ask(self, question: bytes) -> bytes:
        """One line in, one line out. Raises ``PolicyFailed``, or ``EnvironmentFailed`` when it was the worker that
        ended the policy meanwhile. The child is then of no more use."""
        self._answers.catch_up(LIMIT_BYTES)
        if self._heard:
            raise self.failure("wrote more than one line for a turn")
        if self._inlet.unsent:
            raise self.failure("decided without reading the view")
        self._logged_bytes = 0
        self._log.resume()
        self._inlet.send(question)
        while (answer := self._answer()) is None:
            if self._ending:
                raise EnvironmentFailed("the worker ended the policy while it was deciding")
            if self._silent:
                raise self.failure(await self._how_it_ended())
            self._changed.clear()
            await self._changed.wait()
        return answer

    def _answer(self) -> bytes | None:
        if self._logged_bytes > LIMIT_BYTES:
            raise self.failure(f"wrote over {LIMIT_BYTES} bytes to standard error in one turn")
        line, newline, more = self._heard.partition(b"\n")
        if len(line) > LIMIT_BYTES:
            raise self.failure(f"wrote a line of over {LIMIT_BYTES} bytes")
        if more:
            raise self.failure("wrote more than one line for a turn")
        if not newline:
            return None
        self._heard.clear()
        return bytes(line)

    def failure(self, what: str) -> PolicyFailed:
        """What went wrong, with the last line of the policy's log, which mostly says why, and then its end."""
        log = self._tail.decode("utf-8", "replace").strip()
        lines = log.splitlines()
        why = f": {lines[-1].strip()}" if lines else ""
        more = f"; its standard error ends:\n{log}" if len(lines) > 1 else ""
        return PolicyFailed(f"the policy {what}{why}{more}")

    async def _how_it_ended(self) -> str:
        """Standard output has ended: wait a moment for the status, which comes a little later."""
        for _ in range(int(_LAST_WORDS_S / 0.01)):
            await asyncio.sleep(0.01)  # also lets the loop read the end of the log
            status = self._process.poll()
            if status is not None:
                return f"ended with status {status}{_by_signal(status)} before it decided"
        return "closed its standard output before it decided"

    def _hear(self, data: bytes) -> None:
        self._heard += data
        self._silent = self._silent or not data
        if len(self._heard) > LIMIT_BYTES:
            self._answers.pause()
        self._changed.set()

    def _keep(self, data: bytes) -> None:
        self._tail = (self._tail + data)[-TAIL_BYTES:]
        self._logged_bytes += len(data)
        if self._logged_bytes > LIMIT_BYTES:
            self._log.pause()
        self._changed.set()

    async def end(self, threads: Executor) -> Ended:
        """End every process of the policy. Call it once."""
        self._ending = True
        self._changed.set()
        try:
            return await asyncio.get_running_loop().run_in_executor(threads, self._end)
        finally:
            for pipe in (self._inlet, self._answers, self._log):
                pipe.close()

    def _end(self) -> Ended:
        ended = end(self._process, self._mark)
        self._orphans.forget(self._process.pid)
        orphans = self._orphans.end()
        return ended + Ended(orphans, orphans)


def _by_signal(status: int) -> str:
    try:
        return f" ({signal.Signals(status - 128 if status > 128 else -status).name})"
    except ValueError:
        return ""
