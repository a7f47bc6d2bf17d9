"""What outlives its makers in a namespace of messages and shared memory, seen from outside."""

import ctypes
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

SYSTEM_V = ("shm", "sem", "msg")

_CLONE_NEWIPC = 0x08000000
_FSOPEN, _FSCONFIG, _FSMOUNT = 430, 431, 432
_CLOEXEC, _CREATE = 1, 6


def left_behind(pid: int) -> tuple[str, ...]:
    """Names of what is there in the namespace of a process. Raises ``OSError``.

    In a thread that enters the namespace, and ends with it. ``/proc`` tells System V's objects; message
    queues are the files of a file system that shows those of whoever mounts it.
    """
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(lambda: tuple(_left(pid))).result()


def _left(pid: int) -> Iterator[str]:
    libc = ctypes.CDLL(None, use_errno=True)
    namespace = os.open(f"/proc/{pid}/ns/ipc", os.O_RDONLY | os.O_CLOEXEC)
    try:
        _checked(libc.setns(namespace, _CLONE_NEWIPC), "setns")
    finally:
        os.close(namespace)
    for kind in SYSTEM_V:
        for line in Path("/proc/sysvipc", kind).read_text().splitlines()[1:]:
            yield f"{kind} {line.split()[1]}"
    yield from (f"queue {name}" for name in _queues(libc))


def _queues(libc: ctypes.CDLL) -> list[str]:
    context = _checked(libc.syscall(_FSOPEN, b"mqueue", _CLOEXEC), "fsopen mqueue")
    try:
        _checked(libc.syscall(_FSCONFIG, context, _CREATE, None, None, 0), "fsconfig mqueue")
        mounted = _checked(libc.syscall(_FSMOUNT, context, _CLOEXEC, 0), "fsmount mqueue")
    finally:
        os.close(context)
    try:
        root = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=mounted)
    finally:
        os.close(mounted)
    try:
        return sorted(os.listdir(root))
    finally:
        os.close(root)


def _checked(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result
