"""What somebody who waits at an exec wants to become."""

from __future__ import annotations

import errno
import os
import stat

from infra.sandboxes.supervisor.limits import MAX_ARGUMENT_BYTES, MAX_ARGUMENTS
from infra.sandboxes.supervisor.notices import POINTER_BYTES, architecture_of, argument, call_of, task_of
from infra.sandboxes.supervisor.processes import read_file

EXECVEAT = frozenset({322, 281, 358, 387, 0x40000221})
AT_FDCWD = 0xFFFFFF9C


def arguments_of(notice: bytearray) -> list[str] | None:
    """What it wants to become; ``None`` for an exec that will fail, as searches of ``PATH`` do."""
    pid, size = task_of(notice), POINTER_BYTES[architecture_of(notice)]
    is_at = call_of(notice) in EXECVEAT
    path_at, argv_at = (argument(notice, index + is_at) for index in (0, 1))
    try:
        memory = os.open(f"/proc/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return [read_file(f"/proc/{pid}/comm").decode("utf-8", "replace").strip()]
    try:
        path = os.fsdecode(string_at(memory, path_at))
        argv = [string_at(memory, at).decode("utf-8", "replace") for at in pointers_at(memory, argv_at, size)]
    finally:
        os.close(memory)
    folder = argument(notice, 0) & 0xFFFFFFFF if is_at else AT_FDCWD
    return argv if may_exec(pid, folder, path) else None


def string_at(memory: int, address: int) -> bytes:
    return os.pread(memory, MAX_ARGUMENT_BYTES, address).split(b"\0", 1)[0] if address else b""


def pointers_at(memory: int, address: int, size: int) -> list[int]:
    """Up to the first null one."""
    data = os.pread(memory, size * MAX_ARGUMENTS, address) if address else b""
    found = [int.from_bytes(data[at : at + size], "little") for at in range(0, len(data) - size + 1, size)]
    return found[: found.index(0)] if 0 in found else found


def may_exec(pid: int, folder: int, path: str) -> bool:
    """Whether there is something to become; what cannot be looked at is taken for a program."""
    if not path.startswith("/"):
        base = f"/proc/{pid}/cwd" if folder == AT_FDCWD else f"/proc/{pid}/fd/{folder}"
        path = f"{base}/{path}" if path else base
    try:
        mode = os.stat(path).st_mode
    except OSError as error:
        return error.errno not in (errno.ENOENT, errno.ENOTDIR)
    return stat.S_ISREG(mode) and bool(mode & 0o111)
