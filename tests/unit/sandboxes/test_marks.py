"""Who is told to have read a marked file, with the kernel's own notices and readers that the test names."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.sandboxes.supervisor.kernel import Kernel
from infra.sandboxes.supervisor.limits import MAX_READS
from infra.sandboxes.supervisor.loop import Clock
from infra.sandboxes.supervisor.marks import File, Marks, Reader
from infra.sandboxes.supervisor.processes import Process
from infra.sandboxes.supervisor.receipts import JOURNAL, Journal


class Yard:
    """Marks of two files. ``reader`` is whoever has one open when it is looked."""

    def __init__(self, folder: Path) -> None:
        (folder / "work").mkdir()
        self.files = [folder / "work" / name for name in ("a", "b")]
        for file in self.files:
            file.write_bytes(b"1")
        clock = Clock()
        self.journal = Journal(os.open(folder / "journal", JOURNAL), clock)
        self.work = os.open(folder / "work", os.O_RDONLY)
        self.reader: Reader | None = None
        self.looks = 0
        self.marks = Marks(Kernel(), clock, self.journal, self.find)
        self.marks.watch(self.work, {"a": "a", "b": "b"})
        assert self.marks.unwatched == []

    def find(self, file: File) -> Reader | None:
        self.looks += 1
        return self.reader

    def read(self, reader: Reader | None, *files: Path) -> None:
        """Read, and have it looked at."""
        self.reader = reader
        for file in files or self.files[:1]:
            file.read_bytes()
        self.marks.collect()

    def told(self) -> dict[tuple[str, str], int]:
        return {who: record["opens"] for who, record in self.marks.records.items()}

    def close(self) -> None:
        for fd in (self.journal.fd, self.work, self.marks.fd):
            os.close(fd)


@pytest.fixture
def yard(tmp_path: Path) -> Iterator[Yard]:
    made = Yard(tmp_path)
    yield made
    made.close()


def by(pid: int, op_id: str) -> Reader:
    return Process(pid, [b"0"] * 36), op_id


def turn(yard: Yard, op_id: str) -> None:
    yard.marks.begin(op_id)
    yard.marks.finish(op_id)


def test_between_turns_each_reader_is_told(yard: Yard) -> None:
    turn(yard, "1")
    yard.read(by(11, "1"))
    turn(yard, "5")
    yard.read(by(55, "5"))
    yard.read(None)
    assert yard.told() == {("a", "1"): 1, ("a", "5"): 1, ("a", ""): 1}


def test_a_command_s_own_read_is_its_own_whoever_has_read_before_it(yard: Yard) -> None:
    yard.marks.begin("7")
    yard.read(by(11, "1"))
    yard.read(by(77, "7"))
    yard.read(None)
    yard.read(by(11, "1"))
    assert yard.told() == {("a", "1"): 2, ("a", "7"): 2}


def test_who_has_gone_before_its_read_is_looked_for_is_the_one_that_opened_it(yard: Yard) -> None:
    yard.marks.begin("7")
    with yard.files[0].open("rb", buffering=0) as file:
        yard.reader = by(11, "1")
        yard.marks.collect()
        file.read()
    yard.reader = None
    yard.files[0].read_bytes()
    yard.marks.collect()
    opens_and_reads = {op_id: (one["opens"], one["reads"]) for (_, op_id), one in yard.marks.records.items()}
    assert opens_and_reads == {"1": (1, 1), "7": (1, 1)}


def test_it_is_looked_once_for_all_that_is_told_at_once(yard: Yard) -> None:
    yard.read(by(11, "1"), *yard.files * 50)
    assert yard.looks == 2
    assert yard.told() == {("a", "1"): 50, ("b", "1"): 50}


def test_whoever_is_known_is_told_also_when_nobody_else_is(yard: Yard) -> None:
    yard.read(by(11, "known"))
    for at in range(MAX_READS - 1):
        yard.marks.records["b", str(at)] = {}
    yard.read(by(11, "known"))
    assert (yard.marks.records["a", "known"]["opens"], yard.marks.not_kept) == (2, 0)
    yard.read(by(12, "late"))
    assert (("a", "late") in yard.marks.records, yard.marks.not_kept) == (False, 1)


def test_what_is_read_for_an_operation_is_its_own_whoever_has_the_file_open(yard: Yard) -> None:
    yard.marks.begin("another")
    yard.reader = by(11, "1")
    yard.files[0].read_bytes()
    yard.marks.collect(op_id="tool")
    assert yard.told() == {("a", "tool"): 1}
