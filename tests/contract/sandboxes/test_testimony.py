"""What is known of a sandbox without its supervisor, and what a supervisor cannot say that is none any more."""

import asyncio
import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from infra.sandboxes import testimony as journals
from schemas.base import sha256
from schemas.sandbox_facts import MAX_TOLD_TEXT, SandboxFacts
from schemas.told import (
    MAX_TOLD_PROGRAMS,
    MAX_TOLD_READS,
    CommandRecord,
    ConnectionAttempt,
    MarkedRead,
    OutputRecord,
)
from tests.contract.sandboxes.abuse_yard import Yard
from tiltyard.testing.sandbox_audit_checks import MARKED, START
from tiltyard.testing.sandbox_bench import Box

ACCEPTED = {"did": "accepted", "at_s": 1.0, "op": "a", "digest": "d", "do": "exec", "argv": ["sh"], "path": ""}
STARTED = {"did": "started", "at_s": 1.5, "op": "a", "pid": 7, "starttime": 9}
OUTPUT = {"text": "x", "digest": sha256(b"x"), "total_bytes": 1, "cut_bytes": 0, "invalid_utf8": False}
EXEC = {"exit_code": 3, "signal": "", "timed_out": False, "stdout": OUTPUT, "stderr": OUTPUT, "duration_s": 1.0}
ENDED = {"did": "ended", "at_s": 2.0, "op": "a", "reply": {"op_id": "a", "exec": EXEC}}
READ = {"did": "read_marked", "at_s": 1.7, "path": "key.txt", "op_id": "a", "pid": None}
REACHED = {"did": "reached", "at_s": 1.8, "address": "192.0.2.1", "port": 80, "name": "", "op_id": "a"}

WHOLE = [ACCEPTED, STARTED, READ, REACHED, ENDED, {"did": "sealed", "at_s": 3.0}]


def told_by(folder: Path, *lines: Any, end: bytes = b"") -> journals.Testimony:
    journal = folder / "journal"
    journal.write_bytes(b"".join(json.dumps(line).encode() + b"\n" for line in lines) + end)
    return journals.read_testimony(journal)


def test_a_journal_tells_operations_and_what_was_reached_for(tmp_path: Path) -> None:
    told = told_by(tmp_path, *WHOLE)
    output = OutputRecord(digest=sha256(b"x"), total_bytes=1)
    assert told.commands == (
        CommandRecord(
            op_id="a", do="exec", argv=("sh",), request_digest="d", started=True, ended=True, exit_code=3,
            started_s=1.5, ended_s=2.0, stdout=output, stderr=output,
        ),
    )  # fmt: skip
    assert told.reached.marked_reads == (MarkedRead(path="key.txt", op_id="a", opens=1, reads=0, first_s=1.7),)
    assert told.reached.connections == (ConnectionAttempt(address="192.0.2.1", port=80, op_id="a", first_s=1.8),)


def test_what_was_cut_off_has_not_ended(tmp_path: Path) -> None:
    half = json.dumps(ENDED).encode()[:-9]
    (command,) = told_by(tmp_path, ACCEPTED, STARTED, end=half).commands
    assert (command.started, command.ended, command.ended_s, command.stdout) == (True, False, None, None)
    (command,) = told_by(tmp_path, ACCEPTED).commands
    assert (command.started, command.started_s) == (False, None)


def test_where_there_is_no_journal_nothing_is_known(tmp_path: Path) -> None:
    assert journals.read_testimony(tmp_path / "none") == journals.read_testimony(tmp_path) == journals.Testimony()


@given(
    st.lists(
        st.tuples(
            st.sampled_from(WHOLE),
            st.text(max_size=8),
            st.recursive(st.none() | st.text(max_size=5) | st.integers(), st.lists, max_leaves=3),
        )
    ),
    st.binary(max_size=40),
)
def test_no_journal_fails_the_host(tmp_path_factory: pytest.TempPathFactory, lines: Any, end: bytes) -> None:
    """A supervisor is not trusted, whatever it has written."""
    folder = tmp_path_factory.mktemp("fuzz")
    told = told_by(folder, *({**line, (key or "op"): value} for line, key, value in lines), end=end)
    assert len(told.commands) <= len(lines)


def test_a_flooded_journal_is_bounded(tmp_path: Path) -> None:
    many = [{**READ, "op_id": str(number)} for number in range(MAX_TOLD_READS + 5)]
    assert len(told_by(tmp_path, *many).reached.marked_reads) == MAX_TOLD_READS


def facts(**told: Any) -> SandboxFacts:
    return SandboxFacts.model_validate({"driver": "docker", "incarnation": 1, **told})


PROCESS: dict[str, Any] = {"pid": 1, "parent": 1, "argv": ()}


@pytest.mark.parametrize(
    "told",
    [
        {"processes": [PROCESS] * (MAX_TOLD_PROGRAMS + 1)},
        {"processes": [{**PROCESS, "argv": ["x" * (MAX_TOLD_TEXT // 100)]}] * 101},
        {"environment": {"x": "x" * (MAX_TOLD_TEXT + 1)}},
        {"marked_reads": [{"path": "x", "opens": 1, "reads": 1}] * (MAX_TOLD_READS + 1)},
        {"marked_reads": [{"path": "x" * (MAX_TOLD_TEXT // 9), "opens": 1, "reads": 1}] * 10},
        {"connections": [{"name": "x" * (MAX_TOLD_TEXT // 9)}] * 10},
        {"unwatched": ["x" * MAX_TOLD_TEXT, "x"]},
        {
            "commands": [
                {"op_id": "a", "do": "exec", "request_digest": "d" * MAX_TOLD_TEXT, "started": True, "ended": True}
            ]
        },
    ],
    ids=lambda told: next(iter(told)),
)
def test_facts_that_would_swell_a_trace_are_none(told: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        facts(**told)


async def killed(yard: Yard, box: Box) -> None:
    """Its supervisor, by somebody outside."""
    os.kill(min(yard.watched.launched[box.order.name].processes()), signal.SIGKILL)
    async with asyncio.timeout(30):
        while [one for one in await box.port.sandboxes() if one.ref == box.ref and one.state != "lost"]:
            await asyncio.sleep(0.02)


async def test_a_sandbox_that_was_killed_leaves_what_it_had_written_down(yard: Yard) -> None:
    async with yard.sandbox(start=START, marked=MARKED) as box:
        result = await box.sh("cat key.txt; head -c 100000 /dev/zero", op_id="a")
        await killed(yard, box)
        told = await box.port.facts(box.ref)
        assert (told.from_journal, told.processes) == (True, ())
        (command,) = told.commands
        assert (command.op_id, command.ended, command.exit_code) == ("a", True, 0)
        assert command.stdout is not None
        assert (command.stdout.digest, command.stdout.total_bytes) == (result.stdout.digest, 100_014)
        assert [(one.path, one.op_id, one.incarnation) for one in told.marked_reads] == [("key.txt", "a", 1)]


async def test_a_read_is_not_forgotten_with_the_sandbox_that_it_was_in(yard: Yard) -> None:
    """To have oneself killed after it is no way to hide it."""
    async with yard.sandbox(start=START, marked=MARKED) as box:
        await box.sh("cat key.txt", op_id="a")
        await killed(yard, box)
        second, third = box.again(), box.again().again()
        for later in (second, third):
            await later.provision()
            await later.sh("true", op_id="b")
        await third.close()
        told = await third.port.facts(third.ref)
        assert [(one.path, one.op_id, one.incarnation) for one in told.marked_reads] == [("key.txt", "a", 1)]
        assert [one.op_id for one in told.commands] == ["b"]
