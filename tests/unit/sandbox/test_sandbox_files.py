"""Files of a sandbox as values: the start, what has changed, and snapshots as objects."""

import asyncio
import gzip
import random
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from schemas.base import canonical, sha256
from schemas.evidence import FileChange
from schemas.sandbox import FileEntry, SandboxLimits, SandboxPlan, Snapshot
from tiltyard.errors import BadInput
from tiltyard.sandbox.files import changes, digests, fetch, keep, merged, pack_snapshot, start_of, unpack_snapshot
from tiltyard.testing.memory_objects import MemoryObjects


def file(path: str, content: bytes, mode: int = 0o644) -> FileEntry:
    return FileEntry(path=path, mode=mode, size=len(content), digest=sha256(content), content=content)


def link(path: str, target: str) -> FileEntry:
    return FileEntry(path=path, kind="link", mode=0o777, target=target)


def folder(path: str) -> FileEntry:
    return FileEntry(path=path, kind="directory", mode=0o755)


def snapshot(*entries: FileEntry, skipped: tuple[str, ...] = ()) -> Snapshot:
    return Snapshot(entries=entries, skipped=skipped)


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


def without_content(entry: FileEntry) -> FileEntry:
    return entry.model_copy(update={"content": None})


def test_a_checkpoint_gets_the_contents_that_it_left_out() -> None:
    start = snapshot(file("a", b"1"), file("b", b"2"))
    kept = snapshot(
        without_content(file("a", b"1")), file("c", b""), link("d", "a"), folder("e"), skipped=("pipe",)
    )
    assert merged(start, kept) == snapshot(
        file("a", b"1"), file("c", b""), link("d", "a"), folder("e"), skipped=("pipe",)
    )


@pytest.mark.parametrize("missing", [file("a", b"other"), file("unknown", b"1")])
def test_a_content_that_is_nowhere_is_not_made_up(missing: FileEntry) -> None:
    with pytest.raises(BadInput) as caught:
        merged(snapshot(file("a", b"1")), snapshot(without_content(missing)))
    assert caught.value.field == missing.path


ENTRIES = st.builds(
    file,
    st.text("abc/é", min_size=1, max_size=8).map(lambda text: "x" + text.replace("/", "_")),
    st.binary(max_size=40),
)


@given(st.lists(ENTRIES, max_size=6, unique_by=lambda entry: entry.path), st.lists(st.text(max_size=9), max_size=2))
def test_a_packed_snapshot_comes_back_as_it_was(entries: list[FileEntry], skipped: list[str]) -> None:
    whole = snapshot(*sorted(entries, key=lambda entry: entry.path), skipped=tuple(skipped))
    packed = pack_snapshot(whole)
    assert unpack_snapshot(packed) == whole
    assert pack_snapshot(unpack_snapshot(packed)) == packed, "equal snapshots are equal objects"


PACKED = pack_snapshot(snapshot(file("a", b"content" * 100)))


@pytest.mark.parametrize(
    "damaged",
    [
        b"",
        b"no gzip",
        PACKED[:-1],
        PACKED[: len(PACKED) // 2],
        PACKED + b"x",
        gzip.compress(b"no json", mtime=0),
        gzip.compress(b'{"entries": [{"path": "../up"}]}', mtime=0),
        gzip.compress(b'{"entries": [{"path": "a", "content": "?"}]}', mtime=0),
        gzip.compress(canonical({"surprise": 1}), mtime=0),
        gzip.compress(b"\xff\xfe", mtime=0),
        gzip.compress(b"[" * 100_000, mtime=0),
    ],
)
def test_damage_is_bad_input(damaged: bytes) -> None:
    with pytest.raises(BadInput) as caught:
        unpack_snapshot(damaged)
    assert caught.value.field == "snapshot"


@given(st.integers(0, len(PACKED) - 1), st.integers(0, 255))
def test_a_changed_byte_never_crashes_it(position: int, value: int) -> None:
    changed = PACKED[:position] + bytes([value]) + PACKED[position + 1 :]
    with suppress(BadInput):
        assert unpack_snapshot(changed) == unpack_snapshot(PACKED)  # bytes of the header that say nothing


async def test_others_go_on_while_large_files_are_kept() -> None:
    """A worker that holds its loop for as long as this takes misses the heartbeats of all its episodes."""
    turns, objects = 0, MemoryObjects()
    large = snapshot(file("large", random.Random(1).randbytes(2**23)))
    done = asyncio.create_task(keep(objects, large))
    while not done.done():
        await asyncio.sleep(0.001)
        turns += 1
    assert turns > 10
    assert await fetch(objects, done.result()) == large
