"""When programs have ended: with real processes, and a clock that moves at every look."""

import os
import subprocess
import time
from contextlib import nullcontext
from itertools import count
from typing import Any

import pytest

from infra.sandboxes.supervisor import programs
from infra.sandboxes.supervisor.ends import Ends
from infra.sandboxes.supervisor.loop import Clock, Loop


class RestlessClock(Clock):
    """Every look at it is a second later than the one before."""

    def __init__(self) -> None:
        self._looks = count(1)

    @property
    def now_s(self) -> float:
        return float(next(self._looks))


def ended() -> subprocess.Popen[bytes]:
    """A process that has ended and has not been collected."""
    process = subprocess.Popen(["true"])
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    return process


def test_who_is_found_ended_at_one_look_has_ended_at_one_time() -> None:
    """A shell that is looked at first has not ended before the child that it waited for."""
    ends, records = Ends(Loop(), RestlessClock()), [dict[str, Any]() for _ in range(3)]
    processes = [ended() for _ in records]
    for process, record in zip(processes, records, strict=True):
        ends.watch(process.pid, record)
    ends.note()
    assert len({record["ended_s"] for record in records}) == 1, records
    for process in processes:
        process.wait()


def test_who_ends_during_a_look_is_found_by_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The child was looked at before it ended, and its parent after that: both have ended, at one time."""
    ends, records = Ends(Loop(), RestlessClock()), [dict[str, Any]() for _ in range(2)]
    child = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
    parent = ended()
    for process, record in zip((child, parent), records, strict=True):
        ends.watch(process.pid, record)
    look = ends._ended

    def look_then_end() -> set[int]:
        found = look()
        assert child.stdin is not None
        child.stdin.close()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        return found

    monkeypatch.setattr(ends, "_ended", look_then_end)
    ends.note()
    assert records[0] == records[1] != {}
    child.wait()
    parent.wait()


def later(fd: int, notice: bytearray) -> bool:
    time.sleep(0.05)
    return True


def test_a_program_has_started_before_it_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever time passes until the supervisor notes the start belongs to the program."""
    seen, clock, added = programs.Programs.__new__(programs.Programs), Clock(), list[float]()
    seen.fd, seen._clock, seen.released = -1, clock, {}
    monkeypatch.setattr(programs, "receive", lambda fd: bytearray(80))
    monkeypatch.setattr(programs, "let_go_on", later)
    monkeypatch.setattr(programs, "arguments_of", lambda notice: ["true"])
    monkeypatch.setattr(seen, "agent", nullcontext(), raising=False)
    monkeypatch.setattr(seen, "_process_of", lambda pid: object())
    monkeypatch.setattr(seen, "operation_of", lambda process: "a")
    monkeypatch.setattr(seen, "add", lambda process, argv, op_id, started_s: added.append(started_s))
    seen.on_call()
    assert added[0] <= clock.now_s - 0.05
