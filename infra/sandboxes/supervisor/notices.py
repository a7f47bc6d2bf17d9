"""How the kernel is asked to tell of system calls before they are done, and what it tells: seccomp's notification.

Told of are each exec, and what names somebody to connect with or to send to. Whoever makes such a call waits until
it is let go on. So the supervisor, who lets go on, must make none of them itself: it would wait for ever.
"""

from __future__ import annotations

import fcntl
import os

from infra.sandboxes.supervisor.kernel import Kernel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

SECCOMP_CALL = {"x86_64": 317, "aarch64": 277}
EXECS: dict[str, dict[int, tuple[tuple[int, ...], int]]] = {
    "x86_64": {0xC000003E: ((59, 322, 0x40000208), 8), 0x40000003: ((11, 358), 4)},
    "aarch64": {0xC00000B7: ((221, 281), 8), 0x40000028: ((11, 387), 4)},
}  # machine: {architecture of a call: (numbers of execve and execveat, bytes of a pointer)}
POINTER_BYTES = {arch: size for calls in EXECS.values() for arch, (_, size) in calls.items()}
CONNECT, SEND_TO, SEND_MESSAGE, SEND_MESSAGES = "connect", "sendto", "sendmsg", "sendmmsg"
SENDS = {
    0xC000003E: {42: CONNECT, 44: SEND_TO, 46: SEND_MESSAGE, 307: SEND_MESSAGES},
    0xC00000B7: {203: CONNECT, 206: SEND_TO, 211: SEND_MESSAGE, 269: SEND_MESSAGES},
}  # of the machines' own architectures: sandboxes refuse all others
NEW_LISTENER, ALLOW_SPECULATION, WAIT_KILLABLE = 8, 4, 32
RECEIVE, SEND, CONTINUE = 0xC0502100, 0xC0182101, 1
LOAD, EQUAL, GREATER, RETURN = 0x20, 0x15, 0x25, 0x06
NOTIFY, ALLOW = 0x7FC00000, 0x7FFF0000
MSG_NOSIGNAL, LONGEST_QUERY = 0x4000, 512


def instruction(code: int, operand: int, when_true: int = 0, when_false: int = 0) -> bytes:
    return code.to_bytes(2, "little") + bytes((when_true, when_false)) + operand.to_bytes(4, "little")


def argument_at(index: int) -> int:
    """Where ``struct seccomp_data`` has an argument: its low half, the high one follows."""
    return 16 + 8 * index


def notify_of(numbers: Iterable[int]) -> bytes:
    return b"".join(instruction(EQUAL, number, 0, 1) + instruction(RETURN, NOTIFY) for number in numbers)


def notify_of_send_to(number: int) -> bytes:
    """With an address; and without one what may be a query for a name: libc has connected with whom it asks."""
    body = (
        *(instruction(LOAD, argument_at(4)), instruction(EQUAL, 0, 0, 6)),
        *(instruction(LOAD, argument_at(4) + 4), instruction(EQUAL, 0, 0, 4)),
        *(instruction(LOAD, argument_at(3)), instruction(EQUAL, MSG_NOSIGNAL, 0, 3)),
        *(instruction(LOAD, argument_at(2)), instruction(GREATER, LONGEST_QUERY, 1, 0)),
        *(instruction(RETURN, NOTIFY), instruction(RETURN, ALLOW)),
    )
    return instruction(EQUAL, number, 0, len(body)) + b"".join(body)


def call_filter(machine: str) -> bytes:
    """A seccomp program that notifies of what is told of, and allows everything else."""
    program = instruction(LOAD, 4)
    for architecture, (execs, _) in EXECS[machine].items():
        tests = notify_of(execs)
        for number, name in SENDS.get(architecture, {}).items():
            tests += notify_of_send_to(number) if name == SEND_TO else notify_of((number,))
        block = instruction(LOAD, 0) + tests + instruction(RETURN, ALLOW)
        program += instruction(EQUAL, architecture, 0, len(block) // 8) + block
    return program + instruction(RETURN, ALLOW)


def listen(kernel: Kernel) -> int:
    """Have such calls from here on told on a descriptor; -1 where the machine does not do that."""
    machine = os.uname().machine
    if machine not in EXECS:
        return -1
    for more in (WAIT_KILLABLE, 0):  # since Linux 5.19: what we have heard of is not taken back by a signal
        flags = NEW_LISTENER | ALLOW_SPECULATION | more
        fd = kernel.listener(SECCOMP_CALL[machine], flags, call_filter(machine))
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


def number(notice: bytearray, at: int, size: int) -> int:
    """A number in ``struct seccomp_notif``."""
    return int.from_bytes(notice[at : at + size], "little")


def task_of(notice: bytearray) -> int:
    """The process or thread that waits."""
    return number(notice, 8, 4)


def call_of(notice: bytearray) -> int:
    return number(notice, 16, 4)


def architecture_of(notice: bytearray) -> int:
    return number(notice, 20, 4)


def argument(notice: bytearray, index: int) -> int:
    return number(notice, 32 + 8 * index, 8)


def send_of(notice: bytearray) -> str:
    """Which of the calls of ``SENDS`` it is; empty for an exec."""
    return SENDS.get(architecture_of(notice), {}).get(call_of(notice), "")
