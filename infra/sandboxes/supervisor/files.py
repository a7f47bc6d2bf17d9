"""Files below the work folder: no path leads out of it, and no link is followed."""

# ruff: noqa: SIM105 - contextlib would have to be loaded
from __future__ import annotations

import errno
import os
import stat

from infra.sandboxes.supervisor.limits import MAX_PATH_BYTES
from infra.sandboxes.supervisor.messages import Refused, bad

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC

CODES = {
    errno.ENOENT: "not_found",
    errno.ENOTDIR: "not_a_file",
    errno.EISDIR: "not_a_file",
    errno.ENXIO: "not_a_file",
    errno.ELOOP: "bad_path",
    errno.ENAMETOOLONG: "bad_path",
    errno.ENOSPC: "no_space",
    errno.EDQUOT: "no_space",
    errno.EFBIG: "no_space",
}  # anything else is "denied", with the system's own words


def parts_of(path: str) -> list[str]:
    """The parts of a path below the work folder. Names are data: none leads out of it."""
    parts = path.split("/")
    try:
        length = len(path.encode("utf-8"))
    except UnicodeEncodeError:
        raise Refused("bad_path", "the path is no UTF-8") from None
    if not 1 <= length <= MAX_PATH_BYTES or "\0" in path or any(part in ("", ".", "..") for part in parts):
        raise Refused("bad_path", f"{path[:100]!r} is no path below the work folder")
    return parts


def is_link(name: str, folder: int) -> bool:
    try:
        return stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    except OSError:
        return False


def open_folder(name: str, folder: int) -> int:
    """Open a folder, and nothing else that may have come in its place. gVisor follows a link in spite of O_NOFOLLOW
    where a folder is asked for."""
    fd = os.open(name, FOLDER, dir_fd=folder)
    try:
        if not os.path.samestat(os.fstat(fd), os.stat(name, dir_fd=folder, follow_symlinks=False)):
            raise OSError(errno.ELOOP, "it is not the folder of this name")
    except OSError:
        os.close(fd)
        raise
    return fd


def step(folder: int, name: str, make: bool) -> int:
    """Open the folder ``name`` in ``folder``, made if need be and asked for. A link is refused."""
    if make:
        try:
            os.mkdir(name, 0o755, dir_fd=folder)
        except FileExistsError:
            pass
    try:
        return open_folder(name, folder)
    except OSError:
        if is_link(name, folder):
            raise Refused("bad_path", f"{name!r} on the way is a link, and links are not followed") from None
        raise


class Parent:
    """The open folder that a path ends in, as a context, and the last part of the path."""

    def __init__(self, work: int, path: str, make: bool = False) -> None:
        *folders, self.name = parts_of(path)
        self.fd = os.dup(work)
        try:
            for name in folders:
                inner = step(self.fd, name, make)
                os.close(self.fd)
                self.fd = inner
        except BaseException:
            os.close(self.fd)
            raise

    def __enter__(self) -> Parent:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.fd)

    def require_file(self) -> None:
        """Refuse what is there and no plain file, without opening it."""
        mode = os.stat(self.name, dir_fd=self.fd, follow_symlinks=False).st_mode
        if stat.S_ISLNK(mode):
            raise Refused("bad_path", "it is a link, and links are not followed")
        if not stat.S_ISREG(mode):
            raise Refused("not_a_file", "it is a directory" if stat.S_ISDIR(mode) else "it is no plain file")


def open_file(name: str, folder: int) -> tuple[int, os.stat_result]:
    """Open a plain file for reading, and nothing else that may have come in its place."""
    fd = os.open(name, FILE, dir_fd=folder)
    about = os.fstat(fd)
    if not stat.S_ISREG(about.st_mode):
        os.close(fd)
        raise Refused("not_a_file", "it is no plain file")
    return fd, about


def read_piece(work: int, path: str, offset: int, limit: int) -> tuple[bytes, int]:
    """(up to ``limit`` bytes from ``offset``, the size of the whole)."""
    with Parent(work, path) as parent:
        parent.require_file()
        fd, about = open_file(parent.name, parent.fd)
        try:
            piece = os.pread(fd, limit, offset)
        finally:
            os.close(fd)
    return piece, about.st_size


def write_whole(work: int, path: str, content: bytes, mode: int) -> None:
    """Write a file so that whoever opens it sees the old or the new one."""
    with Parent(work, path, make=True) as parent:
        try:
            parent.require_file()
        except FileNotFoundError:
            pass
        name = f".{os.urandom(8).hex()}.partial"
        fd = os.open(name, NEW_FILE, 0o600, dir_fd=parent.fd)
        try:
            write_all(fd, content)
            os.fchmod(fd, mode)
            os.rename(name, parent.name, src_dir_fd=parent.fd, dst_dir_fd=parent.fd)
        except BaseException:
            os.unlink(name, dir_fd=parent.fd)
            raise
        finally:
            os.close(fd)


def write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


class Agent:
    """Who commands run as, as a context: what is done with files is done with their rights and owned by them."""

    def __init__(self, uid: int | None, gid: int | None) -> None:
        self.uid, self.gid = uid, gid

    def __enter__(self) -> None:
        if self.gid is not None:
            os.setegid(self.gid)
        if self.uid is not None:
            os.seteuid(self.uid)

    def __exit__(self, *_: object) -> None:
        if self.uid is not None:
            os.seteuid(os.getuid())
        if self.gid is not None:
            os.setegid(os.getgid())


def put_start(work: int, entries: list[dict[str, Any]], tail: bytes) -> list[tuple[str, int]]:
    """Make what a sandbox begins with. The contents are in ``tail``, one after the other.

    Returns (path, mode) of the folders, for ``close_folders``.
    """
    modes, at = [], 0
    for entry in entries:
        path, kind = entry["path"], entry.get("kind", "file")
        try:
            if kind == "file":
                content = entry.get("content")
                if content is None:
                    raise bad("has no content", f"start: {path}", "send the bytes of every file")
                at += content["bytes"]
                if at > len(tail):
                    raise bad("is cut off", f"start: {path}", "send a tail with all contents")
                write_whole(work, path, tail[at - content["bytes"] : at], entry.get("mode", 0o644))
            elif kind == "link":
                with Parent(work, path, make=True) as parent:
                    os.symlink(entry["target"], parent.name, dir_fd=parent.fd)
            else:
                with Parent(work, path + "/x", make=True):
                    modes.append((path, entry.get("mode", 0o755)))
        except (OSError, Refused) as error:
            fix = "see its path, and the sandbox's disk_bytes"
            raise bad(f"cannot be made: {error}", f"start: {path}", fix) from None
    return modes


def close_folders(work: int, modes: list[tuple[str, int]]) -> None:
    """Give folders their modes, last of all: files go into some that are not writable in the end."""
    for path, mode in reversed(modes):
        with Parent(work, path + "/x") as parent:
            os.fchmod(parent.fd, mode)
