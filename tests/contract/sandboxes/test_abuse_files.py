"""Abuse of the way of files: full disks, links, names, and what a snapshot must not take for a file."""

import asyncio
import hashlib
from contextlib import suppress
from typing import Any

import pytest

from infra.sandboxes.volumes import volumes_of
from schemas.operation import ReadRequest, WriteRequest
from schemas.sandbox import FileEntry, SandboxLimits, Snapshot
from tests.contract.sandboxes.abuse_yard import Yard, printed, python
from tiltyard.errors import TiltyardError

MIB = 2**20
SMALL = SandboxLimits(disk_bytes=4 * MIB)


@pytest.mark.parametrize(("folder", "most"), [("/work", 4 * MIB), ("/tmp", 2 * MIB), ("/dev/shm", 2 * MIB)])
async def test_a_full_disk_is_an_error_of_the_one_who_fills_it(yard: Yard, folder: str, most: int) -> None:
    yard.needs("disk")
    fill = f"i=0; while head -c 1000000 /dev/zero > {folder}/$i; do i=$((i+1)); done; cat {folder}/* | wc -c"
    async with yard.sandbox(limits=SMALL) as box:
        ended = await box.sh(fill)
        assert "No space left on device" in ended.stderr.text
        assert most // 2 < int(ended.stdout.text) <= most
        if folder == "/work":
            assert (await box.write("more", b"x" * 10_000)).code == "no_space"
        await box.sh(f"rm {folder}/*")
        await box.put("more", b"x" * 10_000)


async def test_a_flood_of_files_is_an_error_of_the_one_who_makes_them(yard: Yard) -> None:
    """Files without content take memory too, which would be missing in the end to the supervisor."""
    flood = """
import errno, os
made = 0
try:
    while True:
        open(f"{made}", "w").close()
        made += 1
except OSError as error:
    print(made, error.errno == errno.ENOSPC)
"""
    (volume, *_) = volumes_of(SMALL)
    async with yard.sandbox(limits=SMALL) as box:
        if int(await box.out("stat -f -c %c /work")) != volume.files:
            pytest.skip("only root's sandboxes have a limit of files")
        assert await printed(box, flood) == f"{volume.files - 1} True"
        assert len((await box.snapshot()).entries) == volume.files - 1
        await box.sh("find . -type f -delete")
        await box.put("more", b"x")


async def test_a_file_cannot_be_larger_than_the_disk(yard: Yard) -> None:
    async with yard.sandbox(limits=SMALL) as box:
        ended = await box.sh("truncate -s 10G sparse")
        assert ended.exit_code != 0
        await box.sh("truncate -s 4M sparse; truncate -s 4M sparse-too")
        snapshot = await box.snapshot()
        held = sum(len(entry.content or b"") for entry in snapshot.entries)
        assert held <= 4 * MIB
        assert len(snapshot.entries) + len(snapshot.skipped) == 2, "what is left out is named"


async def test_links_are_data(yard: Yard) -> None:
    make = "ln -s /etc/passwd out; ln -s / root; ln -s /proc/1/environ secret; ln -s loop loop"
    async with yard.sandbox() as box:
        await box.sh(f"{make}; echo own > file; ln file hard")
        assert {(await box.read(path)).code for path in ("out", "secret", "loop", "root/etc/passwd")} == {
            "bad_path"
        }
        assert {(await box.write(path, b"x")).code for path in ("out", "loop", "root/work/x")} == {"bad_path"}
        found = {entry.path: entry for entry in (await box.snapshot()).entries}
        assert {path: entry.target for path, entry in found.items() if entry.kind == "link"} == {
            "out": "/etc/passwd",
            "root": "/",
            "secret": "/proc/1/environ",
            "loop": "loop",
        }
        assert {path: entry.content for path, entry in found.items() if entry.kind == "file"} == {
            "file": b"own\n",
            "hard": b"own\n",
        }


async def test_a_swap_of_links_gets_nothing_copied_or_overwritten(yard: Yard) -> None:
    """A file and a folder that are links to the outside every other moment, while they are copied and written: what
    was checked by name was opened by name, and was something else by then (PraisonAI 4107)."""
    swap = """
import os
os.makedirs("plain"); open("plain/passwd", "w").write("own")
os.symlink("/etc", "way"); open("file", "w").write("own"); os.symlink("/etc/passwd", "other")
open("ready", "w").close()
libc = __import__("ctypes").CDLL(None)
while True:
    for pair in ((b"file", b"other"), (b"plain", b"way")):
        libc.renameat2(-100, pair[0], -100, pair[1], 2)
"""
    async with yard.sandbox() as box:
        swapping = asyncio.create_task(python(box, swap, timeout_s=2))
        await box.appears("ready")
        while not swapping.done():
            files = await box.files()
            assert {content for path, content in files.items() if path != "ready"} <= {b"own"}
            for path in ("file", "other", "plain/passwd", "way/passwd"):
                reply = await box.read(path)
                copied = reply.read.content if reply.read else b"own"
                assert copied == b"own"
                assert reply.code in ("", "bad_path", "not_found", "not_a_file"), reply
            await box.write("way/new", b"own")
        assert (await box.sh("test -e /etc/new")).exit_code == 1


@pytest.mark.parametrize("path", ["..", "a/..", "../etc/passwd", "/etc/passwd", "a//b", ".", "a/./b", "", "a\\0b"])
async def test_a_path_that_is_none_is_refused(yard: Yard, path: str) -> None:
    """As a client without our checks would send it. One that ended in two dots had a copy write beside its folder
    on the host (inspect_ai 4369)."""
    path = path.replace("\\0", "\0")
    async with yard.sandbox() as box:
        await box.sh("mkdir a")
        for request in (
            ReadRequest.model_construct(op_id="read", path=path, offset=0, limit=10),
            WriteRequest.model_construct(op_id="write", path=path, content=b"x", mode=0o644),
        ):
            with suppress(TiltyardError):
                assert (await box.call(request)).code == "bad_path"
        assert await box.out("find . -not -name a") == ".\n"


def entry(path: str, content: bytes = b"x", **fields: Any) -> FileEntry:
    """An entry of which nothing has been checked."""
    digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
    plain: dict[str, Any] = {"path": path, "kind": "file", "mode": 0o644, "size": len(content), "digest": digest}
    return FileEntry.model_construct(None, **{**plain, "target": "", "content": content, **fields})


HOSTILE = {
    "parent": [entry("../out")],
    "parent at the end": [entry("a/..")],
    "absolute": [entry("/tmp/out")],
    "NUL": [entry("a\0b")],
    "through a link": [entry("way", kind="link", target="/tmp"), entry("way/out")],
    "a file as a folder": [entry("file"), entry("file/out")],
}


@pytest.mark.parametrize("entries", HOSTILE.values(), ids=HOSTILE)
async def test_a_hostile_start_is_refused(yard: Yard, entries: list[FileEntry]) -> None:
    start = Snapshot.model_construct(None, entries=tuple(entries), skipped=())
    with pytest.raises(TiltyardError):
        async with yard.sandbox(start=start) as box:
            pytest.fail(f"it was made: {await box.out('find /work /tmp')}")


async def test_a_start_that_is_too_large_is_refused(yard: Yard) -> None:
    yard.needs("disk")
    start = Snapshot(entries=(entry("large", b"x" * (5 * MIB)),))
    with pytest.raises(TiltyardError):
        async with yard.sandbox(limits=SMALL, start=start):
            pass


async def test_what_is_no_file_is_named_and_never_copied(yard: Yard) -> None:
    make = """
import os, socket
os.mkfifo("pipe")
socket.socket(socket.AF_UNIX).bind("socket")
try: os.mknod("device", 0o020666, os.makedev(1, 8))
except OSError as error: print(error.errno)
open("file", "w").write("own")
"""
    async with yard.sandbox() as box:
        assert await printed(box, make) == "1"
        snapshot = await box.snapshot()
        assert [found.path for found in snapshot.entries] == ["file"]
        assert len(snapshot.skipped) == 2


async def test_names_that_are_no_text_hurt_nobody(yard: Yard) -> None:
    make = r"""
import os
for name in (b"\xff\xfe", b"new\nline", b"-rf", b"\x1b[31m", "\u202e".encode(), b"x" * 255):
    open(name, "w").write("own")
os.makedirs("/".join(["d" * 200] * 6))
"""
    async with yard.sandbox() as box:
        await printed(box, make)
        snapshot = await box.snapshot()
        paths = {found.path for found in snapshot.entries}
        assert {"new\nline", "-rf", "\x1b[31m", "\u202e", "x" * 255} <= paths
        assert any("\\udcff" in ascii(name) or "\\xff" in ascii(name) or "xff" in name for name in snapshot.skipped)
