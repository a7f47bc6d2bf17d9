"""Files of a sandbox as values: the start, and what has changed."""

import pytest
from pydantic import ValidationError

from schemas.base import sha256
from schemas.evidence import FileChange
from schemas.sandbox import FileEntry, SandboxLimits, SandboxPlan, Snapshot
from tiltyard.sandbox.files import changes, digests, marks_of, start_of


def file(path: str, content: bytes, mode: int = 0o644) -> FileEntry:
    return FileEntry(path=path, mode=mode, size=len(content), digest=sha256(content), content=content)


def link(path: str, target: str) -> FileEntry:
    return FileEntry(path=path, kind="link", mode=0o777, target=target)


def folder(path: str) -> FileEntry:
    return FileEntry(path=path, kind="directory", mode=0o755)


def snapshot(*entries: FileEntry) -> Snapshot:
    return Snapshot(entries=entries)


def test_a_sandbox_starts_with_the_plan_s_files_in_order() -> None:
    plan = SandboxPlan(files={"b/c": "é\n", "a": ""})
    assert start_of(plan) == snapshot(file("a", b""), file("b/c", "é\n".encode()))
    assert digests(start_of(plan)) == {"a": sha256(b""), "b/c": sha256("é\n".encode())}


def test_a_plan_that_no_sandbox_can_hold_is_refused_by_name() -> None:
    for fields, why in (
        ({"files": {"a": "x", "a/b": "y"}}, "files: 'a' is a file"),
        ({"files": {"a/b/c": "x", "a/b": "y"}}, "files: 'a/b' is a file"),
        ({"files": {"a": "x" * 2**20 + "y"}, "limits": {"disk_bytes": 2**20}}, "limits.disk_bytes allows 1048576"),
        ({"environment": {"A": "x\0"}}, "environment: A holds a zero byte"),
        ({"files": {"../a": "x"}}, "relative to the working directory"),
        ({"files": {"/work/a": "x"}}, "relative to the working directory"),
    ):
        with pytest.raises(ValidationError, match=why):
            SandboxPlan.model_validate(fields)
    full = SandboxPlan(files={"a": "x" * 2**20}, limits=SandboxLimits(disk_bytes=2**20))
    assert start_of(full).entries[0].size == 2**20


def test_changes_are_all_differences_by_path() -> None:
    start = snapshot(file("gone", b"1"), file("kept", b"2"), file("new text", b"3"), file("turned", b"4"))
    end = snapshot(
        file("created", b"5", mode=0o755),
        folder("folder"),
        file("kept", b"2", mode=0o600),
        link("link", "/etc/passwd"),
        file("new text", b"33"),
        folder("turned"),
    )
    assert changes(start, end) == (
        FileChange(path="created", change="created", after=sha256(b"5"), size=1, mode=0o755),
        FileChange(path="gone", change="deleted", before=sha256(b"1")),
        FileChange(path="link", change="created", kind="link", mode=0o777),
        FileChange(path="new text", change="updated", before=sha256(b"3"), after=sha256(b"33"), size=2, mode=0o644),
        FileChange(path="turned", change="updated", kind="directory", before=sha256(b"4"), mode=0o755),
    )


def test_a_link_in_the_place_of_a_file_is_a_change_even_to_an_equal_file() -> None:
    start, end = snapshot(file("a", b"1"), file("b", b"1")), snapshot(file("a", b"1"), link("b", "a"))
    assert [(one.path, one.change, one.kind) for one in changes(start, end)] == [("b", "updated", "link")]
    assert [one.path for one in changes(end, snapshot(file("a", b"1"), link("b", "c")))] == ["b"]


def test_marks_follow_a_file_into_the_next_incarnation() -> None:
    plan = SandboxPlan(files={"key": "17", "blank": "", "plain": "p"}, marked=("key", "blank"))
    assert marks_of(plan, start_of(plan)) == {"key": "key", "blank": "blank"}
    files = {"moved/key": b"17", "copy": b"17", "key": b"17 and mine", "other": b"", "plain": b"p"}
    entries = [FileEntry(path=path, content=content, digest=sha256(content)) for path, content in files.items()]
    later = Snapshot(entries=(*entries, FileEntry(path="blank", kind="directory")))
    assert marks_of(plan, later) == {"moved/key": "key", "copy": "key", "key": "key"}


def test_what_is_marked_must_be_there() -> None:
    with pytest.raises(ValidationError, match=r"marked\.0: 'gone' is not among files; add it there"):
        SandboxPlan(files={"key": "17"}, marked=("gone",))
