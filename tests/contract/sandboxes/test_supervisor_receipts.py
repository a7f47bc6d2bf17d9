"""Receipts of the supervisor: each operation once, and written down before it takes effect."""

import asyncio
import json
import resource
from pathlib import Path
from typing import Any

import pytest

from schemas.operation import ExecRequest
from tests.contract.sandboxes.supervised import NO_LISTENER, Supervised, changed, supervised
from tiltyard.errors import BadInput, DeliveryConflict, LateWrite, SandboxLost


def lines(den: Supervised) -> list[dict[str, Any]]:
    return [json.loads(line) for line in den.journal.read_bytes().splitlines()]


async def an_ended_operation_is_told_again(den: Supervised) -> None:
    first = await den.run("/bin/sh", "-c", "echo x >> log; cat log; exit 3", op_id="a")
    again = await den.run("/bin/sh", "-c", "echo x >> log; cat log; exit 3", op_id="a")
    assert first == again
    assert (den.work / "log").read_text() == "x\n"


async def many_ask_for_a_running_one(den: Supervised) -> None:
    script = "echo x >> log; while [ ! -e go ]; do sleep 0.01; done; echo done"
    askers = [asyncio.create_task(den.sh(script, op_id="a")) for _ in range(3)]
    await den.appears("log")
    askers.append(asyncio.create_task(den.sh(script, op_id="a")))
    await den.write("go", b"")
    results = await asyncio.gather(*askers)
    assert all(result == results[0] for result in results)
    assert (den.work / "log").read_text() == "x\n"


async def another_request_is_a_conflict(den: Supervised) -> None:
    await den.sh("echo x > log", op_id="a")
    with pytest.raises(DeliveryConflict):
        await den.sh("echo y > log", op_id="a")
    assert (den.work / "log").read_text() == "x\n"


async def nothing_starts_after_the_seal(den: Supervised) -> None:
    before = await den.sh("echo x > log", op_id="before")
    running = asyncio.create_task(den.sh("echo > on; while [ ! -e go ]; do sleep 0.01; done", op_id="running"))
    await den.appears("on")
    await den.link.ask("seal")
    for _ in range(2):
        with pytest.raises(LateWrite):
            await den.sh("echo late > log", op_id="late")
    with pytest.raises(LateWrite):
        await den.write("log", b"late")
    assert await den.sh("echo x > log", op_id="before") == before
    (den.work / "go").write_text("")
    assert (await running).exit_code == 0
    assert (den.work / "log").read_text() == "x\n"
    assert (await den.link.ask("drain"))["refused"] == 3


async def it_has_started_on_paper_before_it_starts(den: Supervised) -> None:
    """The command itself looks for its receipt, first of all."""
    script = f"echo $$; cat {den.journal}; cut -d' ' -f22 /proc/$$/stat"
    pid, *receipts, started = (await den.out(script, op_id="self")).splitlines()
    accepted, began = (json.loads(line) for line in receipts)
    assert (accepted["did"], accepted["op"], accepted["argv"]) == ("accepted", "self", ["/bin/sh", "-c", script])
    assert (began["did"], began["op"]) == ("started", "self")
    assert (began["pid"], began["starttime"]) == (int(pid), int(started))
    assert 0 <= accepted["at_s"] <= began["at_s"]


async def the_journal_tells_it_in_order(den: Supervised) -> None:
    result = await den.run("/bin/sh", "-c", "exit 7", op_id="a")
    await den.write("file", b"x")
    await den.link.ask("seal")
    with pytest.raises(LateWrite):
        await den.sh("true", op_id="late")
    await den.link.ask("drain")
    told = lines(den)
    assert [line["did"] for line in told] == [*["accepted", "started", "ended"] * 2, "sealed", "refused", "drained"]
    assert told[2]["reply"] == result.model_dump(exclude_unset=True)
    assert told[-2]["op"] == "late"


CHECKS = (
    an_ended_operation_is_told_again,
    many_ask_for_a_running_one,
    another_request_is_a_conflict,
    nothing_starts_after_the_seal,
    it_has_started_on_paper_before_it_starts,
    the_journal_tells_it_in_order,
)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_receipts(check: Any, tmp_path: Path) -> None:
    async with supervised(tmp_path) as den:
        await check(den)


async def test_it_has_started_on_paper_also_where_execs_are_not_told(tmp_path: Path) -> None:
    async with supervised(tmp_path, changed(*NO_LISTENER, tmp_path)) as den:
        await it_has_started_on_paper_before_it_starts(den)


async def test_what_is_released_too_early_is_caught(tmp_path: Path) -> None:
    """Without its gate, and with a moment's rest of the supervisor."""
    program = changed(*NO_LISTENER, tmp_path)
    source = program.read_text().replace("if os.read(gate, 1) !=", "if b'!' !=")
    program.write_text(
        source.replace("        leader = look(self.pid)\n", "        time.sleep(1); leader = look(self.pid)\n")
    )
    async with supervised(tmp_path, program) as den:
        with pytest.raises((AssertionError, ValueError)):
            await it_has_started_on_paper_before_it_starts(den)


LEARN = "operation = self.known.get(op_id)\n"
STARTED = "        self.operation.start(pid=self.pid, starttime=leader.start if leader else 0)\n"
REFUSED = '            self.sandbox.journal.write("refused", op=op_id, digest=digest)\n'


@pytest.mark.parametrize(
    ("check", "old", "new"),
    [
        (an_ended_operation_is_told_again, LEARN, "operation = None\n"),
        (many_ask_for_a_running_one, LEARN, "operation = None\n"),
        (another_request_is_a_conflict, "elif operation.digest != digest:", "elif False:"),
        (nothing_starts_after_the_seal, "            self.sealed = True\n", ""),
        (it_has_started_on_paper_before_it_starts, STARTED, ""),
        (the_journal_tells_it_in_order, REFUSED, ""),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
async def test_a_supervisor_that_breaks_a_promise_is_caught(check: Any, old: str, new: str, tmp_path: Path) -> None:
    async with supervised(tmp_path, changed(old, new, tmp_path)) as den:
        with pytest.raises((AssertionError, pytest.fail.Exception, BadInput, ValueError)):
            await asyncio.wait_for(check(den), 20)


async def test_a_supervisor_without_a_journal_ends(tmp_path: Path) -> None:
    """It cannot promise anything then. Its journal fills the disk that a limit makes small."""
    async with supervised(tmp_path) as den:
        resource.prlimit(den.process.pid, resource.RLIMIT_FSIZE, (200, 200))
        with pytest.raises(SandboxLost):
            await den.run("/bin/sh", "-c", "echo x > log", op_id="a" * 300)
        await den.ended()
        assert not (den.work / "log").exists()


async def test_a_journal_that_waits_for_the_disk(tmp_path: Path) -> None:
    async with supervised(tmp_path, sync=True) as den:
        assert await den.out("echo said") == "said\n"


async def test_what_is_no_operation_leaves_no_receipt(tmp_path: Path) -> None:
    async with supervised(tmp_path) as den:
        plain = ExecRequest(op_id="a", argv=("true",), timeout_s=1).model_dump(mode="json")
        wrongs: tuple[dict[str, Any], ...] = (
            {"argv": []},
            {"argv": "true"},
            {"argv": [1]},
            {"timeout_s": "soon"},
            {"do": "dance"},
        )
        for wrong in wrongs:
            with pytest.raises(BadInput):
                await den.link.ask("call", request={**plain, **wrong}, digest="d")
        assert lines(den) == []
        assert (await den.run("true", op_id="a")).exec is not None
