"""Files through the supervisor: whatever an agent makes of its folder, nothing else is read or written."""

import os
import resource
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from schemas.base import sha256
from schemas.operation import SandboxReply
from schemas.sandbox import FileEntry, SandboxLimits, Snapshot
from tests.contract.sandboxes.supervised import Supervised, changed, started, supervised
from tiltyard.errors import BadInput

SECRET = b"secret of the host\n"


def outside(den: Supervised) -> Path:
    """A folder beside the work folder, with something that nobody may have."""
    folder = den.work.parent / "outside"
    folder.mkdir(exist_ok=True)
    (folder / "secret").write_bytes(SECRET)
    return folder


async def ask(den: Supervised, do: str, path: str, **fields: Any) -> SandboxReply:
    """As no host of ours would: the path is not looked at before it is sent."""
    request = {"do": do, "op_id": f"{do} {path!a}", "path": path, **fields}
    return SandboxReply.model_validate(await den.link.ask("call", request=request, digest="d"))


async def no_path_leads_out(den: Supervised) -> None:
    outside(den)
    (den.work / "up").mkdir()
    for path in ("..", "../outside/secret", "up/../../outside/secret", "up/..", f"{den.work}/../outside/secret"):
        assert (await ask(den, "read", path)).code == "bad_path", path
        assert (await ask(den, "write", path, content="eA==")).code == "bad_path", path
    for path in ("", "/", ".", "a//b", "a/", "a\0b", "x" * 1025, "y" * 300):
        assert (await ask(den, "read", path)).code == "bad_path", path
    assert (den.work.parent / "outside" / "secret").read_bytes() == SECRET


async def no_link_is_followed(den: Supervised) -> None:
    folder = outside(den)
    (den.work / "file").symlink_to(folder / "secret")
    (den.work / "folder").symlink_to(folder)
    for path in ("file", "folder/secret", "folder/new", "folder/new/deeper"):
        assert (await den.read(path)).code == "bad_path", path
        assert (await den.write(path, b"x")).code == "bad_path", path
    assert [path.name for path in folder.iterdir()] == ["secret"]
    assert (folder / "secret").read_bytes() == SECRET


async def only_plain_files_are_files(den: Supervised) -> None:
    os.mkfifo(den.work / "fifo")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(os.path.relpath(den.work / "sock"))
        (den.work / "folder").mkdir()
        for path in ("fifo", "sock", "folder"):
            assert (await den.read(path)).code == "not_a_file", path
            assert (await den.write(path, b"x")).code == "not_a_file", path
        skipped = (await den.snapshot()).skipped
    assert skipped == ("fifo: no file, folder or link", "sock: no file, folder or link")


async def a_swap_at_the_copy_shows_nothing(den: Supervised) -> None:
    """A folder and a file that are links half of the time, while they are copied again and again."""
    folder = outside(den)
    (den.work / "real").mkdir()
    (den.work / "real" / "secret").write_bytes(b"own\n")
    script = (
        "import os\n"
        f"os.symlink('{folder}', 'd'); os.symlink('{folder}/secret', 'f')\n"
        "open('own', 'w').close(); open('swaps', 'w').close()\n"
        "while True:\n"
        "    os.rename('real', 'x'); os.rename('d', 'real'); os.rename('x', 'd')\n"
        "    os.rename('own', 'x'); os.rename('f', 'own'); os.rename('x', 'f')\n"
    )
    await den.sh(f'{sys.executable} -I -S -c "{script}" >/dev/null 2>&1 &')
    await den.appears("swaps")
    for _ in range(25):
        snapshot = await den.snapshot()
        assert all(entry.content != SECRET for entry in snapshot.entries)
        for path in ("d/secret", "real/secret", "own", "f"):
            reply = await den.read(path)
            assert reply.read is None or reply.read.content != SECRET


async def a_copy_is_of_one_moment(den: Supervised) -> None:
    """Two files are always written in the same order; a copy that has one of them newer has seen time pass."""
    script = (
        "import os\nn = 0\n"
        "while True:\n"
        "    n += 1\n"
        "    for name in ('z', 'a'):\n"
        "        f = open('x', 'w'); f.write(str(n)); f.close(); os.rename('x', name)\n"
    )
    padding = "".join(f"open('m{number}', 'w').write('x' * 100000)\n" for number in range(40))
    await den.sh(f'{sys.executable} -I -S -c "{padding}{script}" >/dev/null 2>&1 &')
    await den.appears("a")
    for _ in range(10):
        found = {entry.path: entry.content for entry in (await den.snapshot()).entries}
        first, last = int(found["a"] or b"0"), int(found["z"] or b"0")
        assert first <= last <= first + 1, (first, last)


CHECKS = (
    no_path_leads_out,
    no_link_is_followed,
    only_plain_files_are_files,
    a_swap_at_the_copy_shows_nothing,
    a_copy_is_of_one_moment,
)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_files(check: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # for the short path of a socket
    async with supervised(tmp_path) as den:
        await check(den)


@pytest.mark.parametrize(
    ("check", "old", "new"),
    [
        (no_path_leads_out, 'any(part in ("", ".", "..") for part in parts)', "False"),
        (no_link_is_followed, "return open_folder(name, folder)", "return os.open(name, 0, dir_fd=folder)"),
        (
            no_link_is_followed,
            "        if stat.S_ISLNK(mode):\n            raise Refused(",
            "        if 0:\n            raise Refused(",
        ),
        (a_copy_is_of_one_moment, "self.signal(_signal.SIGSTOP)", "return before"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
async def test_a_supervisor_that_is_careless_is_caught(check: Any, old: str, new: str, tmp_path: Path) -> None:
    async with supervised(tmp_path, changed(old, new, tmp_path)) as den:
        with pytest.raises(AssertionError):
            await check(den)


async def test_a_write_replaces_a_file_and_not_what_it_shares(tmp_path: Path) -> None:
    async with supervised(tmp_path) as den:
        (outside(den) / "shared").write_text("before")
        os.link(tmp_path / "outside" / "shared", den.work / "hard")
        assert (await den.write("hard", b"after", mode=0o640)).write is not None
        assert (tmp_path / "outside" / "shared").read_text() == "before"
        assert (den.work / "hard").stat().st_mode & 0o777 == 0o640
        assert sorted(path.name for path in den.work.iterdir()) == ["hard"]


async def test_a_file_beyond_the_limit_is_no_space_and_leaves_nothing(tmp_path: Path) -> None:
    async with supervised(tmp_path) as den:
        (den.work / "there").write_text("")
        soft, hard = resource.prlimit(den.process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(den.process.pid, resource.RLIMIT_FSIZE, (20_000, hard))
        assert (await den.write("large", bytes(2**20))).code == "no_space"
        resource.prlimit(den.process.pid, resource.RLIMIT_FSIZE, (soft, hard))
        assert [path.name for path in den.work.iterdir()] == ["there"]


async def test_a_copy_names_what_it_leaves_out(tmp_path: Path) -> None:
    async with supervised(tmp_path, limits=SandboxLimits(disk_bytes=2**20)) as den:
        (den.work / "bomb").touch()
        os.truncate(den.work / "bomb", 2**40)
        (den.work / "kept").write_bytes(b"kept")
        (den.work / os.fsdecode(b"\xff")).touch()
        (den.work / "odd").symlink_to(os.fsdecode(b"\xff"))
        (den.work / Path(*["d" * 100] * 12)).mkdir(parents=True)
        snapshot = await den.snapshot()
        assert [entry.path for entry in snapshot.entries if entry.kind != "directory"] == ["kept"]
        assert len([entry for entry in snapshot.entries if entry.kind == "directory"]) == 10
        assert [line[:40] for line in sorted(snapshot.skipped)] == [
            "\\udcff: the path is no UTF-8",
            "bomb: 1099511627776 bytes are more than ",
            "d" * 40,
            "odd: what the link points to is no UTF-8",
        ]


LEASED = """
import fcntl, signal, sys
signal.signal(signal.SIGIO, lambda *_: fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_UNLCK))
file = open(sys.argv[1], "r+")
fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)
print("held", flush=True)
while True:
    signal.pause()
"""
"""Lets nobody open a file until it has heard of it. Nobody freezes it here."""


async def test_a_lease_is_waited_for_when_nobody_is_frozen(tmp_path: Path) -> None:
    async with supervised(tmp_path) as den:
        (den.work / "leased").write_text("text")

        @contextmanager
        def leased() -> Iterator[None]:
            command = [sys.executable, "-c", LEASED, str(den.work / "leased")]
            with subprocess.Popen(command, stdout=subprocess.PIPE) as holder:
                assert holder.stdout is not None
                holder.stdout.readline()
                yield
                holder.kill()

        with leased():
            assert (await den.snapshot()).skipped == ("leased: somebody holds a lease on it",)
        await den.link.ask("seal")
        await den.link.ask("drain")
        with leased():
            (entry,) = (await den.snapshot()).entries
        assert (entry.path, entry.content) == ("leased", b"text")


async def test_a_copy_has_limits(tmp_path: Path) -> None:
    program = changed(
        "MAX_ENTRIES, MAX_SKIPPED = 1024, 100_000, 1000", "MAX_ENTRIES, MAX_SKIPPED = 1024, 6, 3", tmp_path
    )
    async with supervised(tmp_path, program) as den:
        for number in range(20):
            (den.work / f"f{number:02}").write_text("x")
        snapshot = await den.snapshot()
        assert [entry.path for entry in snapshot.entries] == [f"f{number:02}" for number in range(6)]
        assert snapshot.skipped[0] == "f06: more than 6 entries"
        assert snapshot.skipped[3:] == ("and 11 more",)


async def test_a_copy_is_sorted_by_whole_paths_and_leaves_out_what_is_known(tmp_path: Path) -> None:
    async with supervised(tmp_path) as den:
        for path in ("a/b", "a-b", "a.b"):
            (den.work / path).parent.mkdir(exist_ok=True)
            (den.work / path).write_text(path)
        found = await den.snapshot(**{"a/b": sha256(b"a/b"), "a-b": sha256(b"a/b")})
        assert [(entry.path, entry.content) for entry in found.entries] == [
            ("a", None),
            ("a-b", b"a-b"),
            ("a.b", b"a.b"),
            ("a/b", None),
        ]
        assert found.entries[3].digest == sha256(b"a/b")


async def test_a_large_copy_arrives_whole(tmp_path: Path) -> None:
    """Larger than what a socket takes at once, in several blocks."""
    async with supervised(tmp_path) as den:
        files = {"large": os.urandom(3 * 2**20 + 1), "small": b"x", "empty": b""}
        for path, content in files.items():
            (den.work / path).write_bytes(content)
        entries = (await den.snapshot()).entries
        assert {entry.path: entry.content for entry in entries} == files
        assert all(entry.digest == sha256(files[entry.path]) for entry in entries)


@pytest.mark.parametrize(
    ("entry", "field"),
    [
        ({"path": "../x", "content": b""}, "../x"),
        ({"path": "/etc/x", "content": b""}, "/etc/x"),
        ({"path": "a\0b", "content": b""}, "a"),
        ({"path": "link/x", "content": b""}, "link/x"),
        ({"path": "x"}, "x"),
        ({"path": "x", "kind": "link", "target": "a\0b"}, ""),
        ({"path": 7, "content": b""}, ""),
    ],
    ids=str,
)
async def test_hostile_beginnings_are_refused(entry: dict[str, Any], field: str, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    link = {"path": "link", "kind": "link", "target": str(tmp_path / "outside")}
    async with started(tmp_path) as den:
        with pytest.raises(BadInput) as refused:
            await den.setup(start={"entries": [link, entry]})
        assert field in str(refused.value)
        assert (await den.link.ask("ping"))["set_up"] is False
        assert list((tmp_path / "outside").iterdir()) == []


async def test_folders_that_nobody_may_write_to_are_filled_first(tmp_path: Path) -> None:
    start = Snapshot(
        entries=(
            FileEntry(path="closed", kind="directory", mode=0o555),
            FileEntry(path="closed/file", content=b"x", mode=0o444),
        )
    )
    async with supervised(tmp_path, start=start) as den:
        assert [(entry.path, entry.mode) for entry in (await den.snapshot()).entries] == [
            ("closed", 0o555),
            ("closed/file", 0o444),
        ]


@pytest.mark.skipif(os.geteuid() != 0, reason="another user's files can be made by root alone")
async def test_files_are_the_agent_s_where_it_has_a_user_of_its_own(tmp_path: Path) -> None:
    """As in a container: the supervisor is root, commands are not, and files are theirs."""
    (tmp_path / "work").mkdir(mode=0o777)
    os.chown(tmp_path / "work", 4321, 4321)
    for parent in (tmp_path, *tmp_path.parents[:-2]):
        parent.chmod(parent.stat().st_mode | 0o711)
    start = Snapshot(entries=(FileEntry(path="d/begun", content=b"x"),))
    async with supervised(tmp_path, start=start, uid=4321, gid=4321) as den:
        await den.write("e/written", b"x", mode=0o600)
        assert await den.out("id -u; id -g; id -G; cat e/written") == "4321\n4321\n4321\nx"
        for path in ("d", "d/begun", "e", "e/written"):
            about = (den.work / path).stat()
            assert (about.st_uid, about.st_gid) == (4321, 4321), path
        (den.work / "closed").write_bytes(SECRET)
        (den.work / "closed").chmod(0o600)
        assert (await den.read("closed")).code == "denied"
        assert (await den.snapshot()).skipped == ("closed: Permission denied",)


async def test_names_that_are_long_in_json_cost_themselves_and_not_the_sandbox(tmp_path: Path) -> None:
    """Bytes that JSON writes as six each: without a limit they would fill a frame that nobody reads."""
    old = "MAX_COPIED_BYTES, MAX_COPIED_JSON_BYTES = 180 * 2**20, 48 * 2**20"
    program = changed(old, "MAX_COPIED_BYTES, MAX_COPIED_JSON_BYTES = 180 * 2**20, 20_000", tmp_path)
    async with supervised(tmp_path, program) as den:
        for number in range(30):
            (den.work / ("\x01" * 200 + f"{number:02}")).write_bytes(b"content")
        found = await den.snapshot()
        assert len(found.entries) == 14
        assert len(found.skipped) == 16
        assert "the names" in found.skipped[0]
        assert await den.out("echo alive") == "alive\n"
