"""When programs started and ended, and the digests of whole outputs."""

import json
from pathlib import Path
from typing import Any

import pytest

from schemas.base import sha256
from schemas.sandbox import SandboxLimits
from schemas.sandbox_facts import SandboxFacts
from schemas.told import ProcessRecord
from tests.contract.sandboxes.supervised import Supervised, changed, supervised
from tiltyard.errors import SandboxLost

LIMITS = SandboxLimits(output_bytes=1024)


async def facts(den: Supervised) -> SandboxFacts:
    await den.link.ask("seal")
    await den.link.ask("drain", term_s=60)
    return await den.facts()


def named(records: tuple[ProcessRecord, ...], *argv: str) -> ProcessRecord:
    (found,) = [one for one in records if one.argv == argv]
    return found


def span(one: ProcessRecord) -> tuple[float, float]:
    assert one.started_s is not None, one
    assert one.ended_s is not None, one
    return one.started_s, one.ended_s


async def programs_start_and_end_in_order(den: Supervised) -> None:
    await den.sh("sleep 0.11; sleep 0.12; :", op_id="a")
    told = await facts(den)
    shell, first, second = map(span, told.processes)
    assert 0 <= shell[0] <= first[0] < first[1] <= second[0] < second[1] <= shell[1]
    assert first[1] - first[0] >= 0.11
    (command,) = told.commands
    assert command.started_s is not None
    assert command.ended_s is not None
    assert command.started_s <= shell[0] < second[1] <= command.ended_s


async def a_background_child_has_its_times_too(den: Supervised) -> None:
    await den.sh("(sleep 0.15; echo > done) >/dev/null 2>&1 & setsid sleep 1000 >/dev/null 2>&1 &", op_id="a")
    await den.appears("done")
    told = await facts(den)
    short, long = span(named(told.processes, "sleep", "0.15")), span(named(told.processes, "sleep", "1000"))
    (command,) = told.commands
    assert command.ended_s is not None
    assert command.ended_s < short[1] <= long[1], "it outlived its command, and the drain ended the other one"
    assert named(told.processes, "sleep", "1000").left


async def a_program_ends_when_it_becomes_another(den: Supervised) -> None:
    await den.sh("sleep 0.01; exec sleep 0.1", op_id="a")
    told = await facts(den)
    shell, other = told.processes[0], named(told.processes, "sleep", "0.1")
    assert shell.pid == other.pid
    assert shell.ended_s == pytest.approx(other.started_s, abs=0.01), "it was told in one breath"


async def digests_are_of_all_that_came(den: Supervised) -> None:
    result = await den.sh("head -c 100000 /dev/zero; printf é >&2", op_id="a")
    await den.sh("kill -9 $$", op_id="b")
    first, second = (await facts(den)).commands
    assert first.stdout is not None
    assert first.stderr is not None
    assert (first.stdout.digest, first.stdout.total_bytes) == (sha256(bytes(100_000)), 100_000)
    assert (first.stderr.digest, first.stderr.total_bytes) == (sha256("é".encode()), 2)
    assert result.stdout.digest == first.stdout.digest
    assert second.stdout is not None
    assert second.stdout.digest == sha256(b"")


async def reads_have_no_outputs(den: Supervised) -> None:
    await den.write("file", b"x")
    (told,) = (await facts(den)).commands
    assert (told.stdout, told.stderr, told.do) == (None, None, "write")
    assert told.started_s is not None


CHECKS = (
    programs_start_and_end_in_order,
    a_background_child_has_its_times_too,
    a_program_ends_when_it_becomes_another,
    digests_are_of_all_that_came,
    reads_have_no_outputs,
)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_times_and_digests(check: Any, tmp_path: Path) -> None:
    async with supervised(tmp_path, limits=LIMITS) as den:
        await check(den)


@pytest.mark.parametrize(
    ("check", "old", "new"),
    [
        (programs_start_and_end_in_order, 'record["ended_s"] = now_s', 'record["ended_s"] = 0.0'),
        (a_background_child_has_its_times_too, "        programs.note_ends()\n", "        programs.renew()\n"),
        (a_program_ends_when_it_becomes_another, "        self._note(pid, self._clock.now_s)\n", ""),
        (digests_are_of_all_that_came, "        self._digest.update(data)\n", ""),
        (
            digests_are_of_all_that_came,
            "        self._digest.update(data)\n",
            "        self._digest.update(data[:9])\n",
        ),
        (
            reads_have_no_outputs,
            "self.started, self.started_s = True, self.journal.clock.now_s",
            "self.started = True",
        ),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
async def test_a_supervisor_that_says_something_else_is_caught(
    check: Any, old: str, new: str, tmp_path: Path
) -> None:
    async with supervised(tmp_path, changed(old, new, tmp_path), limits=LIMITS) as den:
        with pytest.raises((AssertionError, ValueError, SandboxLost)):
            await check(den)


async def test_ends_that_cannot_be_watched_are_not_known(tmp_path: Path) -> None:
    program = changed("MAX_ENDS_WATCHED = 256", "MAX_ENDS_WATCHED = 1", tmp_path)
    async with supervised(tmp_path, program) as den:
        await den.sh("sleep 0.01; :", op_id="a")
        shell, other = (await facts(den)).processes
        assert (shell.ended_s is None, other.ended_s) == (False, None)


async def test_the_journal_has_the_digests(tmp_path: Path) -> None:
    """They outlive the supervisor."""
    async with supervised(tmp_path, limits=LIMITS) as den:
        await den.sh("head -c 100000 /dev/zero", op_id="a")
        told = [json.loads(line) for line in den.journal.read_bytes().splitlines()]
        assert told[-1]["reply"]["exec"]["stdout"]["digest"] == sha256(bytes(100_000))
        assert [line["at_s"] for line in told] == sorted(line["at_s"] for line in told)
