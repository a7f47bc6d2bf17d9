"""Checks of the sandbox kit: files in, out, and over to the next incarnation."""

from schemas.base import sha256
from schemas.sandbox import FileEntry, Snapshot
from tiltyard.testing.sandbox_bench import Box, SandboxBench


def file(path: str, content: bytes, mode: int = 0o644) -> FileEntry:
    return FileEntry(path=path, size=len(content), digest=sha256(content), content=content, mode=mode)


def link(path: str, target: str) -> FileEntry:
    return FileEntry(path=path, kind="link", target=target)


START = Snapshot(
    entries=(
        file("README", b"read me\n"),
        file("bin/run", b"\x00\xff\n", mode=0o755),
        FileEntry(path="empty", kind="directory", mode=0o755),
        link("latest", "README"),
    )
)


async def _code(box: Box, path: str) -> str:
    return (await box.read(path)).code


async def it_begins_with_the_ordered_files_and_no_others(bench: SandboxBench) -> None:
    async with bench.sandbox() as bare:
        assert await bare.out("ls") == "", "a sandbox without files holds some"
    async with bench.sandbox(start=START) as box:
        assert await box.out("ls") == "README\nbin\nempty\nlatest\n"
        assert await box.out("cat README") == "read me\n", "commands do not begin in the working directory"
        assert await box.files() == {"README": b"read me\n", "bin/run": b"\x00\xff\n"}


async def bytes_go_in_and_come_out_as_they_are(bench: SandboxBench) -> None:
    async with bench.sandbox() as box:
        content = bytes(range(256)) * 4096
        await box.put("deep/er/bytes", content)
        reply = await box.read("deep/er/bytes", limit=2**22)
        assert reply.read is not None, reply
        assert reply.read.content == content
        assert (await box.sh("cat deep/er/bytes")).stdout.total_bytes == len(content)
        await box.put("deep/er/bytes", b"")
        assert await box.content("deep/er/bytes") == b"", "what was there before was not replaced"
        assert await box.files() == {"deep/er/bytes": b""}


async def a_file_s_mode_is_kept(bench: SandboxBench) -> None:
    async with bench.sandbox() as box:
        await box.put("run", b"#!/bin/sh\n", mode=0o755)
        await box.put("plain", b"")
        modes = {entry.path: entry.mode for entry in (await box.snapshot()).entries}
        assert modes == {"run": 0o755, "plain": 0o644}


async def reads_have_an_offset_and_a_limit(bench: SandboxBench) -> None:
    async with bench.sandbox() as box:
        await box.put("digits", b"0123456789")
        for offset, limit, expected in (
            (0, 4, b"0123"),
            (4, 3, b"456"),
            (8, 100, b"89"),
            (10, 1, b""),
            (99, 1, b""),
        ):
            read = (await box.read("digits", offset=offset, limit=limit)).read
            assert read is not None
            assert (read.content, read.size) == (expected, 10), f"{limit} bytes from {offset}: {read}"


async def files_have_receipts_too(bench: SandboxBench) -> None:
    async with bench.sandbox() as box:
        first = await box.write("file", b"first", op_id="w1")
        seen = await box.read("file", op_id="r1")
        await box.put("file", b"second")
        assert await box.write("file", b"first", op_id="w1") == first
        assert await box.content("file") == b"second", "a write was done again"
        assert await box.read("file", op_id="r1") == seen, "a read is not what it was"


async def what_is_no_file_is_told_apart(bench: SandboxBench) -> None:
    async with bench.sandbox() as box:
        await box.sh("mkdir -p folder; echo text > file")
        assert await _code(box, "nothing") == "not_found"
        assert await _code(box, "folder/nothing") == "not_found"
        assert await _code(box, "folder") == "not_a_file"
        assert await _code(box, "file/below") in ("not_found", "not_a_file")
        for path in ("folder", "file/below"):
            reply = await box.write(path, b"x")
            assert reply.code == "not_a_file", f"{path}: {reply}"
            assert reply.message, "a code needs a sentence for a person"
        assert await box.files() == {"file": b"text\n"}


async def links_are_refused_and_never_followed(bench: SandboxBench) -> None:
    async with bench.sandbox() as box:
        await box.sh("echo secret > secret; mkdir -p folder; ln -s secret link; ln -s folder way; ln -s /etc out")
        for path in ("link", "way/file", "out/passwd"):
            assert await _code(box, path) == "bad_path", f"{path} was followed"
            assert (await box.write(path, b"x")).code == "bad_path", f"{path} was followed"
        assert await box.files() == {"secret": b"secret\n"}


async def a_full_disk_is_told(bench: SandboxBench) -> None:
    """Where the driver holds a sandbox to its disk."""
    if "disk" not in (await bench.port.offer(bench.driver)).enforced:
        return
    limits = bench.order().limits.model_copy(update={"disk_bytes": 2**20})
    async with bench.sandbox(limits=limits) as box:
        await box.put("small", b"small")
        assert (await box.write("large", bytes(2 * 2**20))).code == "no_space"
        assert (await box.sh("cat > large", stdin=bytes(2 * 2**20))).exit_code != 0
        assert await box.content("small") == b"small"


async def a_snapshot_holds_everything(bench: SandboxBench) -> None:
    async with bench.sandbox(start=START) as box:
        await box.sh("echo new > new; rm README; mkdir -p made/by; echo x >> bin/run")
        snapshot = await box.snapshot()
        assert snapshot.skipped == ()
        assert [(entry.path, entry.kind) for entry in snapshot.entries] == [
            ("bin", "directory"),
            ("bin/run", "file"),
            ("empty", "directory"),
            ("latest", "link"),
            ("made", "directory"),
            ("made/by", "directory"),
            ("new", "file"),
        ]
        for entry in snapshot.entries:
            expected = (
                (sha256(entry.content or b""), len(entry.content or b"")) if entry.kind == "file" else ("", 0)
            )
            assert entry.digest == expected[0], f"{entry.path}: the digest is not that of its bytes"
            assert entry.kind != "file" or entry.size == expected[1], f"{entry.path}: {entry.size} bytes"
        assert (await box.files())["bin/run"] == b"\x00\xff\nx\n"


async def known_contents_are_left_out(bench: SandboxBench) -> None:
    async with bench.sandbox(start=START) as box:
        await box.sh("echo changed > README")
        known = {entry.path: entry.digest for entry in START.entries if entry.kind == "file"}
        found = {entry.path: entry for entry in (await box.snapshot(known)).entries}
        assert found["bin/run"].content is None, "a content that is known was sent again"
        assert found["bin/run"].digest == known["bin/run"]
        assert found["README"].content == b"changed\n", "a content that is not known was left out"
        swapped = {"bin/run": known["README"], "other": known["bin/run"]}
        unlike = {entry.path: entry for entry in (await box.snapshot(swapped)).entries}
        assert unlike["bin/run"].content == b"\x00\xff\n", "a content counts as known under another path only"


async def links_are_data(bench: SandboxBench) -> None:
    targets = {"absolute": "/etc/passwd", "dangling": "no-such-file", "up": "../../etc/passwd"}
    script = "; ".join(f"ln -s {target} {path}" for path, target in targets.items())
    async with bench.sandbox() as box:
        await box.sh(script)
        snapshot = await box.snapshot()
        assert {entry.path: entry.target for entry in snapshot.entries} == targets
        assert all((entry.kind, entry.content) == ("link", None) for entry in snapshot.entries), snapshot
    async with bench.sandbox(start=snapshot) as copy:
        assert await copy.snapshot() == snapshot


async def a_checkpoint_comes_back_in_the_next_incarnation(bench: SandboxBench) -> None:
    async with bench.sandbox(start=START) as box:
        await box.sh("echo more >> README; mkdir -p src; echo code > src/app; rm latest; ln -s src/app latest")
        await box.put("src/run", b"#!", mode=0o700)
        kept = await box.snapshot()
        await box.sh("echo lost > lost; rm src/app")
        later = box.again(start=kept)
        await later.provision()
        assert await later.snapshot() == kept


async def nothing_else_comes_over_to_the_next_incarnation(bench: SandboxBench) -> None:
    async with bench.sandbox(start=START) as box:
        await box.sh("echo canary > canary; mkdir -p nest; echo canary > nest/canary", op_id="same")
        later = box.again(start=Snapshot())
        await later.provision()
        assert await later.out("ls") == "", "files of an earlier incarnation are seen"
        assert (await later.snapshot()).entries == ()
        assert (await later.sh("echo new", op_id="same")).stdout.text == "new\n", "receipts came over"


FILE_CHECKS = (
    it_begins_with_the_ordered_files_and_no_others,
    bytes_go_in_and_come_out_as_they_are,
    a_file_s_mode_is_kept,
    reads_have_an_offset_and_a_limit,
    files_have_receipts_too,
    what_is_no_file_is_told_apart,
    links_are_refused_and_never_followed,
    a_full_disk_is_told,
    a_snapshot_holds_everything,
    known_contents_are_left_out,
    links_are_data,
    a_checkpoint_comes_back_in_the_next_incarnation,
    nothing_else_comes_over_to_the_next_incarnation,
)
