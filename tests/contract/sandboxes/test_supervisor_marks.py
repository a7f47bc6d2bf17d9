"""Marked files: whoever opens one is told of, however it is done."""

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from schemas.base import sha256
from schemas.sandbox import FileEntry, Snapshot
from schemas.sandbox_facts import SandboxFacts
from schemas.told import MarkedRead
from tests.contract.sandboxes.supervised import Supervised, changed, supervised

SECRET = b"the-key-is-17\n"
FILES = {"key.txt": SECRET, "deep/other.txt": b"other\n", "plain.txt": b"plain\n"}
START = Snapshot(
    entries=tuple(
        FileEntry(path=path, content=content, size=len(content), digest=sha256(content))
        for path, content in FILES.items()
    )
)
MARKED = {"key.txt": "key.txt", "deep/other.txt": "deep/other.txt"}


async def facts(den: Supervised) -> SandboxFacts:
    await den.link.ask("seal")
    await den.link.ask("drain", term_s=60)
    return await den.facts()


async def reads(den: Supervised) -> list[MarkedRead]:
    return list((await facts(den)).marked_reads)


def who(found: list[MarkedRead]) -> list[tuple[str, str]]:
    return [(one.path, one.op_id) for one in found]


async def a_read_is_told(den: Supervised) -> None:
    await den.sh("cat plain.txt; ls -l; stat key.txt", op_id="before")
    await den.sh("cat key.txt", op_id="a")
    (found,) = await reads(den)
    assert (found.path, found.op_id) == ("key.txt", "a")
    assert (found.opens >= 1, found.reads >= 1) == (True, True)
    assert found.first_s is not None
    assert found.first_s > 0


EVASIONS = {
    "moved": "mv key.txt x; cat x",
    "moved away": "mv key.txt /dev/shm/$$; cat /dev/shm/$$; rm /dev/shm/$$",
    "hard link": "ln key.txt x; cat x",
    "hard link alone": "ln key.txt x; rm key.txt; cat x",
    "link": "ln -s key.txt x; cat x",
    "link to the folder": "ln -s . y; cat y/key.txt",
    "copied": "cp key.txt x; cat x",
    "folder moved": "mkdir d; mv key.txt d; mv d e; cat e/key.txt",
    "python": "python3 -c \"open('key.txt').read()\"",
    "mapped": "python3 -c \"import mmap; f = open('key.txt'); mmap.mmap(f.fileno(), 0, prot=1)[:]\"",
    "by descriptor": "exec 9<key.txt; cat /proc/self/fd/9",
    "by a path that is not opened": (
        "python3 -c \"import os; f = os.open('key.txt', os.O_PATH); open(f'/proc/self/fd/{f}').read()\""
    ),
    "for writing too": "python3 -c \"open('key.txt', 'r+').read()\"",
    "sent": "python3 -c \"import os; os.sendfile(1, os.open('key.txt', os.O_RDONLY), 0, 9)\"",
    "closed and opened": "chmod 0 key.txt; chmod 600 key.txt; cat key.txt",
    "included": ". ./key.txt 2>/dev/null",
    "packed": "tar cf x.tar key.txt",
    "searched": "grep -r key . >/dev/null",
    "on a background": "(cat key.txt >/dev/null &) ; sleep 0.2",
}


async def a_replaced_file_is_not_marked(den: Supervised) -> None:
    await den.sh("echo mine > mine; mv mine key.txt", op_id="a")
    await den.sh("cat key.txt", op_id="b")
    await den.write("deep/other.txt", b"mine")
    await den.read("deep/other.txt")
    assert await reads(den) == []


async def a_tool_s_read_is_the_agent_s(den: Supervised) -> None:
    await den.sh("true", op_id="before")
    reply = await den.read("key.txt")
    assert reply.read is not None
    await den.sh("true", op_id="after")
    assert who(await reads(den)) == [("key.txt", reply.op_id)]


async def copies_of_ours_are_not_told(den: Supervised) -> None:
    await den.sh("chmod 0 deep/other.txt; (sleep 1000 >/dev/null 2>&1 &)", op_id="a")
    for _ in range(3):
        assert len((await den.snapshot()).entries) == 4
    await den.sh("cat plain.txt", op_id="b")
    assert await reads(den) == []
    await den.snapshot()
    assert list((await den.facts()).marked_reads) == []


async def what_was_read_before_a_copy_is_told(den: Supervised) -> None:
    await den.sh(
        "(while [ ! -e go ]; do :; done; cat key.txt >/dev/null; echo > done) >/dev/null 2>&1 &", op_id="a"
    )
    await den.write("go", b"")
    await den.appears("done")
    await den.snapshot()
    assert [one.path for one in await reads(den)] == ["key.txt"]


async def a_background_child_is_found_by_what_it_holds(den: Supervised) -> None:
    """Another operation is under way; the reader keeps the file open."""
    script = (
        "(while [ ! -e go ]; do sleep 0.01; done; exec 9<key.txt; echo > done; exec sleep 1000) >/dev/null 2>&1 &"
    )
    await den.sh(script, op_id="early")
    await den.sh("echo > go; while [ ! -e done ]; do sleep 0.01; done", op_id="late")
    told = await facts(den)
    (found,) = told.marked_reads
    assert (found.path, found.op_id) == ("key.txt", "early")
    assert found.pid in {one.pid for one in told.processes if one.left}


async def each_operation_is_told_once(den: Supervised) -> None:
    for name in ("a", "b"):
        await den.sh("for i in 1 2 3 4 5; do cat key.txt; cat deep/other.txt; done", op_id=name)
    found = await reads(den)
    assert sorted(who(found)) == sorted((path, name) for path in MARKED for name in ("a", "b"))
    assert all(one.opens >= 5 for one in found)


async def who_reads_between_turns_is_told_each_time(den: Supervised) -> None:
    script = (
        "(while [ ! -e go-$0 ]; do sleep 0.01; done; exec 9<key.txt; echo > has-$0;"
        " while [ ! -e let-$0 ]; do sleep 0.01; done; exec 9<&-; echo > left-$0) >/dev/null 2>&1 &"
    )
    names = ("a", "b")
    for name in names:
        await den.sh(script.replace("$0", name), op_id=name)
    for name in names:
        (den.work / f"go-{name}").touch()  # by nobody inside, so that nothing is under way
        await den.appears(f"has-{name}")
        await den.link.ask("ping")
        (den.work / f"let-{name}").touch()
        await den.appears(f"left-{name}")
    assert who(await reads(den)) == [("key.txt", name) for name in names]


FIRST_OF_A_FILE = "next((one for (path, _), one in self.records.items() if path == called), None)"

CHECKS = (
    a_read_is_told,
    a_replaced_file_is_not_marked,
    a_tool_s_read_is_the_agent_s,
    copies_of_ours_are_not_told,
    what_was_read_before_a_copy_is_told,
    a_background_child_is_found_by_what_it_holds,
    each_operation_is_told_once,
    who_reads_between_turns_is_told_each_time,
)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_marks(check: Any, tmp_path: Path) -> None:
    async with supervised(tmp_path, start=START, marked=MARKED) as den:
        await check(den)
        told = await den.facts()
        assert (told.unwatched, told.reads_lost, told.marked_reads_not_kept) == ((), False, 0)


@pytest.mark.parametrize("script", EVASIONS.values(), ids=list(EVASIONS))
async def test_no_way_around_it(script: str, tmp_path: Path) -> None:
    async with supervised(tmp_path, start=START, marked={"key.txt": "key.txt"}) as den:
        await den.sh(script, op_id="a")
        assert who(await reads(den)) == [("key.txt", "a")]


@pytest.mark.parametrize(
    ("check", "old", "new"),
    [
        (a_read_is_told, "IN_OPEN | IN_ACCESS)\n", "0x8)\n"),
        (a_tool_s_read_is_the_agent_s, "collect(op_id=operation.op_id)", "collect()"),
        (copies_of_ours_are_not_told, "sandbox.marks.collect(counts=False)", "pass"),
        (a_background_child_is_found_by_what_it_holds, "self._find(self._marked[number][1])", "None"),
        (
            each_operation_is_told_once,
            "self.records.get((called, op_id))",
            "next(iter(self.records.values()), None)",
        ),
        (who_reads_between_turns_is_told_each_time, "self.records.get((called, op_id))", FIRST_OF_A_FILE),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
async def test_a_supervisor_that_looks_away_is_caught(check: Any, old: str, new: str, tmp_path: Path) -> None:
    async with supervised(tmp_path, changed(old, new, tmp_path), start=START, marked=MARKED) as den:
        with pytest.raises((AssertionError, ValueError)):
            await check(den)


async def test_a_copy_reads_first_what_was_told_before_it(tmp_path: Path) -> None:
    """In a supervisor that has not had the time to look."""
    program = changed("self.loop.on(self.marks.fd, self.marks.collect)", "pass", tmp_path)
    async with supervised(tmp_path, program, start=START, marked=MARKED) as den:
        await what_was_read_before_a_copy_is_told(den)
    (tmp_path / "worse").mkdir()
    program.write_text(program.read_text().replace("        sandbox.marks.collect()\n        try:", "        try:"))
    async with supervised(tmp_path / "worse", program, start=START, marked=MARKED) as den:
        with pytest.raises(AssertionError):
            await what_was_read_before_a_copy_is_told(den)


async def test_what_the_kernel_drops_is_flagged(tmp_path: Path) -> None:
    """More is opened than its queue holds, while the supervisor does not get to read it."""
    limit = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    async with supervised(tmp_path, start=START, marked=MARKED) as den:
        files = [os.open(den.work / name, os.O_RDONLY) for name in MARKED]
        den.process.send_signal(signal.SIGSTOP)
        for _ in range(limit // 2 + 10):
            for fd in files:
                os.pread(fd, 1, 0)
        den.process.send_signal(signal.SIGCONT)
        for fd in files:
            os.close(fd)
        told = await facts(den)
        assert told.reads_lost
        assert {one.path for one in told.marked_reads} == set(MARKED)


async def test_many_are_counted(tmp_path: Path) -> None:
    names = "MAX_COMMANDS, MAX_READS, MAX_CONNECTIONS, MAX_MARKS, MAX_ASKING = 10_000, 1000, 1000, 2000, 1000"
    program = changed(names, names.replace("10_000, 1000, 1000, 2000", "3, 2, 1000, 2000"), tmp_path)
    async with supervised(tmp_path, program, start=START, marked=MARKED) as den:
        for name in "abcd":
            await den.sh("cat key.txt", op_id=name)
        told = await facts(den)
        assert who(list(told.marked_reads)) == [("key.txt", "a"), ("key.txt", "b")]
        assert told.marked_reads_not_kept > 0
        assert ([one.op_id for one in told.commands], told.commands_not_kept) == (["b", "c", "d"], 1)


async def test_more_marks_than_can_be_watched_are_named(tmp_path: Path) -> None:
    names = "MAX_COMMANDS, MAX_READS, MAX_CONNECTIONS, MAX_MARKS, MAX_ASKING = 10_000, 1000, 1000, 2000, 1000"
    program = changed(names, names.replace("2000", "1"), tmp_path)
    marked = {**MARKED, "gone.txt": "plain.txt"}
    async with supervised(tmp_path, program, start=START, marked=marked) as den:
        assert (await facts(den)).unwatched == ("deep/other.txt", "plain.txt")


async def test_what_cannot_be_watched_is_named(tmp_path: Path) -> None:
    program = changed('{"x86_64": (294, 254), "aarch64": (26, 27)}', "{}", tmp_path)
    async with supervised(tmp_path, program, start=START, marked=MARKED) as den:
        await den.sh("cat key.txt")
        told = await facts(den)
        assert (told.marked_reads, told.unwatched) == ((), tuple(sorted(MARKED)))


async def test_a_file_that_is_closed_to_its_owner_is_watched(tmp_path: Path) -> None:
    """As after a restore: files and folders come back with the modes that an agent gave them."""
    closed = (
        FileEntry(path="d", kind="directory", mode=0),
        FileEntry(path="d/moved", mode=0, content=SECRET, size=len(SECRET), digest=sha256(SECRET)),
    )
    start = Snapshot(entries=closed)
    async with supervised(tmp_path, start=start, marked={"d/moved": "key.txt"}) as den:
        assert await den.out("stat -c %a d") == "0\n"
        assert (
            await den.out("chmod 700 d; stat -c %a d/moved; chmod 600 d/moved; cat d/moved")
            == f"0\n{SECRET.decode()}"
        )
        found = await reads(den)
        assert [one.path for one in found] == ["key.txt"]


async def test_the_journal_knows_of_it_at_once(tmp_path: Path) -> None:
    async with supervised(tmp_path, start=START, marked=MARKED) as den:
        await den.sh("cat key.txt", op_id="a")
        assert b'"did":"read_marked"' in den.journal.read_bytes()


async def test_a_flood_holds_nobody_up(tmp_path: Path) -> None:
    script = "import os\nfor _ in range(100_000):\n    os.close(os.open('key.txt', os.O_RDONLY))\n"
    async with supervised(tmp_path, start=START, marked=MARKED) as den:
        flood, other = asyncio.create_task(den.python(script, op_id="flood")), den.out("echo said", op_id="other")
        assert await other == "said\n"
        await flood
        assert {one.path for one in await reads(den)} == {"key.txt"}
