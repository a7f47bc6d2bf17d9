"""How the kernel is asked to tell of each exec, and what it tells."""

from __future__ import annotations

import errno
import fcntl
import os
import stat

from infra.sandboxes.supervisor.kernel import Kernel
from infra.sandboxes.supervisor.limits import MAX_ARGUMENT_BYTES, MAX_ARGUMENTS
from infra.sandboxes.supervisor.processes import read_file

SECCOMP_CALL = {"x86_64": 317, "aarch64": 277}
EXECS: dict[str, dict[int, tuple[tuple[int, ...], int]]] = {
    "x86_64": {0xC000003E: ((59, 322, 0x40000208), 8), 0x40000003: ((11, 358), 4)},
    "aarch64": {0xC00000B7: ((221, 281), 8), 0x40000028: ((11, 387), 4)},
}  # machine: {architecture of a call: (numbers of execve and execveat, bytes of a pointer)}
POINTER_BYTES = {arch: size for calls in EXECS.values() for arch, (_, size) in calls.items()}
EXECVEAT = frozenset({322, 281, 358, 387, 0x40000221})
NEW_LISTENER, ALLOW_SPECULATION, WAIT_KILLABLE = 8, 4, 32
RECEIVE, SEND, CONTINUE = 0xC0502100, 0xC0182101, 1
LOAD, EQUAL, RETURN = 0x20, 0x15, 0x06
NOTIFY, ALLOW = 0x7FC00000, 0x7FFF0000
AT_FDCWD = 0xFFFFFF9C


def instruction(code: int, operand: int, when_true: int = 0, when_false: int = 0) -> bytes:
    return code.to_bytes(2, "little") + bytes((when_true, when_false)) + operand.to_bytes(4, "little")


def exec_filter(machine: str) -> bytes:
    """A seccomp program that notifies of execve and execveat, and allows everything else."""
    program = instruction(LOAD, 4)
    for architecture, (numbers, _) in EXECS[machine].items():
        tests = b"".join(instruction(EQUAL, number, 0, 1) + instruction(RETURN, NOTIFY) for number in numbers)
        block = instruction(LOAD, 0) + tests + instruction(RETURN, ALLOW)
        program += instruction(EQUAL, architecture, 0, len(block) // 8) + block
    return program + instruction(RETURN, ALLOW)


def listen(kernel: Kernel) -> int:
    """Have every exec from here on told on a descriptor; -1 where the machine does not do that."""
    machine = os.uname().machine
    if machine not in EXECS:
        return -1
    for more in (WAIT_KILLABLE, 0):  # since Linux 5.19: what we have heard of is not taken back by a signal
        flags = NEW_LISTENER | ALLOW_SPECULATION | more
        fd = kernel.listener(SECCOMP_CALL[machine], flags, exec_filter(machine))
        if fd >= 0:
            return fd
    return -1


def receive(listener: int) -> bytearray | None:
    """What is told of one that waits: a ``struct seccomp_notif``; ``None`` when it was killed meanwhile."""
    notice = bytearray(80)
    try:
        fcntl.ioctl(listener, RECEIVE, notice)
    except OSError:
        return None
    return notice


def let_go_on(listener: int, notice: bytearray) -> bool:
    """Whether it goes on: or it was killed, or a signal has interrupted it and it will come again."""
    answer = notice[:8] + bytes(12) + CONTINUE.to_bytes(4, "little")
    try:
        fcntl.ioctl(listener, SEND, answer)
    except OSError:
        return False
    return True


def task_of(notice: bytearray) -> int:
    """The process or thread that waits."""
    return number(notice, 8, 4)


def arguments_of(notice: bytearray) -> list[str] | None:
    """What it wants to become; ``None`` for an exec that will fail, as searches of ``PATH`` do."""
    pid, size = task_of(notice), POINTER_BYTES[number(notice, 20, 4)]
    is_at = number(notice, 16, 4) in EXECVEAT
    path_at, argv_at = (number(notice, 32 + 8 * (index + is_at), 8) for index in (0, 1))
    try:
        memory = os.open(f"/proc/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return [read_file(f"/proc/{pid}/comm").decode("utf-8", "replace").strip()]
    try:
        path = os.fsdecode(string_at(memory, path_at))
        argv = [string_at(memory, at).decode("utf-8", "replace") for at in pointers_at(memory, argv_at, size)]
    finally:
        os.close(memory)
    folder = number(notice, 32, 4) if is_at else AT_FDCWD
    return argv if may_exec(pid, folder, path) else None


def number(notice: bytearray, at: int, size: int) -> int:
    """A number in ``struct seccomp_notif``."""
    return int.from_bytes(notice[at : at + size], "little")


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
