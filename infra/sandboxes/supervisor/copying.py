"""A copy of the work folder."""

from __future__ import annotations

import errno
import os
import stat
import time

from infra.sandboxes.supervisor.files import open_file, open_folder, parts_of
from infra.sandboxes.supervisor.hashing import sha256
from infra.sandboxes.supervisor.limits import (
    BLOCK_BYTES,
    FREEZE_PAUSE_S,
    MAX_COPIED_JSON_BYTES,
    MAX_ENTRIES,
    MAX_PATH_BYTES,
    MAX_SKIPPED,
)
from infra.sandboxes.supervisor.messages import Refused, dumps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

READABLE, ENTERABLE = 0o400, 0o500
"""Of a file, and of a folder: the rights that its owner needs to copy it."""


class Walked:
    """An open folder that is being copied. ``mode`` is put back in the end, where its owner had closed it."""

    __slots__ = ("fd", "mode", "names", "prefix")

    def __init__(self, fd: int, prefix: str, mode: int) -> None:
        self.fd, self.prefix, self.mode = fd, prefix, mode
        self.names = iter(sorted(os.listdir(fd)))

    def close(self) -> None:
        try:
            if is_closed(self.mode, ENTERABLE):
                os.fchmod(self.fd, stat.S_IMODE(self.mode))
        finally:
            os.close(self.fd)


def is_closed(mode: int, needed: int) -> bool:
    return mode & needed != needed


WHY_NOT_COPIED = {errno.EWOULDBLOCK: "somebody holds a lease on it"}
LEASE_LOOKS = 1000


def quickest_sha256() -> Any:
    """OpenSSL's where this Python has it, which takes a fifth of the time. It is loaded for the first copy: a
    sandbox that is never copied starts without it."""
    try:
        from _hashlib import openssl_sha256
    except ImportError:
        return sha256
    return openssl_sha256


class Copy:
    """A copy of the work folder in the making: of each entry the JSON, and the contents beside it.

    Each file is read each time, however old its times say that it is: in a file system in memory, what is stored
    through a mapping of a file moves none of them once a page has been read.
    """

    def __init__(self, known: dict[str, str], limit_bytes: int, patient: bool = False) -> None:
        """``patient``: nobody is frozen, so what is in the way of a file may go."""
        self.looks = LEASE_LOOKS if patient else 1
        self.sha256 = quickest_sha256()
        self.known, self.left_bytes, self.left_entries = known, limit_bytes, MAX_ENTRIES
        self.left_json_bytes = MAX_COPIED_JSON_BYTES
        self.entries: list[tuple[str, bytes, list[bytes]]] = []
        self.skipped: list[str] = []
        self.skipped_more = 0

    def skip(self, path: str, why: str) -> None:
        if len(self.skipped) < MAX_SKIPPED:
            self.skipped.append(f"{path.encode('utf-8', 'backslashreplace').decode()[:MAX_PATH_BYTES]}: {why}")
        else:
            self.skipped_more += 1

    def walk(self, work: int) -> None:
        """Take all that is below, by directory descriptors: a name is opened where it was seen, or not at all.

        Whoever owns a file can close it to itself, and it is there all the same: it is opened while it is copied.
        Nobody sees that but the dead and the frozen.
        """
        mode = os.fstat(work).st_mode
        if is_closed(mode, ENTERABLE):
            os.fchmod(work, stat.S_IMODE(mode) | ENTERABLE)
        stack = [Walked(os.dup(work), "", mode)]
        try:
            while stack:
                name = next(stack[-1].names, None)
                if name is None:
                    stack.pop().close()
                    continue
                path = stack[-1].prefix + name
                try:
                    inner = self.take(stack[-1].fd, name, path)
                    if inner is not None:
                        stack.append(inner)
                except OSError as error:
                    self.skip(path, WHY_NOT_COPIED.get(error.errno or 0) or os.strerror(error.errno or 0))
                except Refused as refused:
                    self.skip(path, refused.message)
        finally:
            while stack:
                stack.pop().close()

    def take(self, folder: int, name: str, path: str) -> Walked | None:
        """Take one entry; a folder, which is to be walked next."""
        parts_of(path)
        if not self.left_entries:
            raise Refused("", f"more than {MAX_ENTRIES} entries")
        mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
        if stat.S_ISREG(mode):
            self.take_file(folder, name, path, mode)
        elif stat.S_ISLNK(mode):
            target = os.readlink(name, dir_fd=folder)
            if not target.isascii() and target != target.encode("utf-8", "replace").decode():
                raise Refused("", "what the link points to is no UTF-8")
            self.add(path, "link", 0o777, target=target)
        elif stat.S_ISDIR(mode):
            self.add(path, "directory", stat.S_IMODE(mode) & 0o777)
            return self.enter(folder, name, path, mode)
        else:
            raise Refused("", "no file, folder or link")
        return None

    def enter(self, folder: int, name: str, path: str, mode: int) -> Walked:
        if is_closed(mode, ENTERABLE):
            os.chmod(name, stat.S_IMODE(mode) | ENTERABLE, dir_fd=folder)
        return Walked(open_folder(name, folder), path + "/", mode)

    def take_file(self, folder: int, name: str, path: str, mode: int) -> None:
        closed = is_closed(mode, READABLE)
        if closed:
            os.chmod(name, stat.S_IMODE(mode) | READABLE, dir_fd=folder)
        try:
            fd, about = self.open_file(name, folder)
        finally:
            if closed:
                os.chmod(name, stat.S_IMODE(mode), dir_fd=folder)
        try:
            if about.st_size > self.left_bytes:
                raise Refused("", f"{about.st_size} bytes are more than what is left of the limit")
            blocks = list(blocks_of(fd, about.st_size))
        finally:
            os.close(fd)
        digest, size = self.sha256(), sum(map(len, blocks))
        for block in blocks:
            digest.update(block)
        named = f"sha256:{digest.hexdigest()}"
        content = None if self.known.get(path) == named else blocks
        self.add(path, "file", stat.S_IMODE(mode) & 0o777, size, named, content=content)

    def open_file(self, name: str, folder: int) -> tuple[int, os.stat_result]:
        """A lease keeps others out for as long as its holder likes, or its end takes."""
        while True:
            try:
                return open_file(name, folder)
            except BlockingIOError:
                self.looks -= 1
                if self.looks <= 0:
                    raise
                time.sleep(FREEZE_PAUSE_S)

    def add(
        self, path: str, kind: str, mode: int, size: int = 0, digest: str = "", target: str = "",
        content: list[bytes] | None = None,
    ) -> None:  # fmt: skip
        entry = {"path": path, "kind": kind, "mode": mode, "size": size, "digest": digest, "target": target}
        kept = {} if content is None else {"content": {"bytes": size}}
        said = dumps({**entry, **kept}).encode("ascii")
        if len(said) > self.left_json_bytes:  # a byte of a name may be six in JSON
            raise Refused("", "the names of all entries are more than what a copy takes")
        self.left_entries -= 1
        self.left_json_bytes -= len(said) + 1
        self.left_bytes -= size
        self.entries.append((path, said, content or []))

    def reply(self) -> tuple[bytes, list[bytes]]:
        """(the JSON, the tail)."""
        if self.skipped_more:
            self.skipped.append(f"and {self.skipped_more} more")
        self.entries.sort(key=lambda entry: entry[0])
        said = b",".join(entry for _, entry, _ in self.entries)
        skipped = dumps(self.skipped).encode("ascii")
        tail = [block for *_, blocks in self.entries for block in blocks]
        return b'{"entries":[' + said + b'],"skipped":' + skipped + b"}", tail


def blocks_of(fd: int, size: int) -> Iterator[bytes]:
    """Not more of a file than it was said to have."""
    offset = 0
    while offset < size:
        block = os.pread(fd, min(BLOCK_BYTES, size - offset), offset)
        if not block:
            return
        yield block
        offset += len(block)
