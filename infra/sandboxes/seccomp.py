"""The system calls that nothing in a sandbox may make, as the BPF program that the kernel runs before each call.

A list of what is refused, not of what is allowed: a task's tools must run, and what is refused here is what lets a
process look into others, change the machine or leave its namespaces. See seccomp(2) and linux/filter.h.
"""

import errno
import struct
from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple

Machine = Literal["x86_64", "aarch64"]


class Numbers(NamedTuple):
    """A call's number on each machine; ``None`` where the machine does not have it."""

    x86_64: int | None
    aarch64: int | None


def _both(number: int) -> Numbers:
    return Numbers(number, number)


REFUSED: Mapping[str, Numbers] = {
    # looking into other processes
    "ptrace": Numbers(101, 117),
    "process_vm_readv": Numbers(310, 270),
    "process_vm_writev": Numbers(311, 271),
    "process_madvise": _both(440),
    "pidfd_getfd": _both(438),
    "kcmp": Numbers(312, 272),
    "perf_event_open": Numbers(298, 241),
    # large parts of the kernel that a sandbox has no use for
    "io_uring_setup": _both(425),
    "io_uring_enter": _both(426),
    "io_uring_register": _both(427),
    "userfaultfd": Numbers(323, 282),
    "bpf": Numbers(321, 280),
    "memfd_secret": _both(447),
    "lookup_dcookie": Numbers(212, 18),
    "modify_ldt": Numbers(154, None),
    "uselib": Numbers(134, None),
    "iopl": Numbers(172, None),
    "ioperm": Numbers(173, None),
    # keys belong to the user of the host, and are not part of any namespace
    "add_key": Numbers(248, 217),
    "request_key": Numbers(249, 218),
    "keyctl": Numbers(250, 219),
    # mounts and namespaces
    "mount": Numbers(165, 40),
    "umount2": Numbers(166, 39),
    "pivot_root": Numbers(155, 41),
    "chroot": Numbers(161, 51),
    "move_mount": _both(429),
    "open_tree": _both(428),
    "open_tree_attr": _both(467),
    "fsopen": _both(430),
    "fsconfig": _both(431),
    "fsmount": _both(432),
    "fspick": _both(433),
    "mount_setattr": _both(442),
    "unshare": Numbers(272, 97),
    "setns": Numbers(308, 268),
    "name_to_handle_at": Numbers(303, 264),
    "open_by_handle_at": Numbers(304, 265),
    "fanotify_init": Numbers(300, 262),
    # the machine itself
    "kexec_load": Numbers(246, 104),
    "kexec_file_load": Numbers(320, 294),
    "init_module": Numbers(175, 105),
    "finit_module": Numbers(313, 273),
    "delete_module": Numbers(176, 106),
    "acct": Numbers(163, 89),
    "swapon": Numbers(167, 224),
    "swapoff": Numbers(168, 225),
    "reboot": Numbers(169, 142),
    "quotactl": Numbers(179, 60),
    "quotactl_fd": _both(443),
    "syslog": Numbers(103, 116),
    "vhangup": Numbers(153, 58),
    "settimeofday": Numbers(164, 170),
    "clock_settime": Numbers(227, 112),
    "adjtimex": Numbers(159, 171),
    "clock_adjtime": Numbers(305, 266),
    "sethostname": Numbers(170, 161),
    "setdomainname": Numbers(171, 162),
}
"""Refused with EPERM."""

MISSING: Mapping[str, Numbers] = {
    # Its flags lie in memory, where a filter cannot see them; libc then uses clone.
    "clone3": _both(435),
    # System V's objects stay when their makers are killed: memory that nobody could be made to give back.
    "shmget": Numbers(29, 194),
    "semget": Numbers(64, 190),
    "msgget": Numbers(68, 186),
    # Its requests are counted for the whole machine: one sandbox could take those of all others.
    "io_setup": Numbers(206, 0),
}
"""Answered with ENOSYS, as by a kernel that does not have them."""

OF_A_PROCESS: Mapping[str, Numbers] = {
    "prlimit64": Numbers(302, 261),
    "sched_setparam": Numbers(142, 118),
    "sched_setscheduler": Numbers(144, 119),
    "sched_setaffinity": Numbers(203, 122),
    "sched_setattr": Numbers(314, 274),
}
"""Refused for the first process, the supervisor. It has the user of everybody here, which is all that the kernel
asks for; one that may write no file any more, or has no share of a busy processor, takes its sandbox with it."""

OF_A_USER: Mapping[str, tuple[Numbers, int]] = {
    "setpriority": (Numbers(141, 140), 2),
    "ioprio_set": (Numbers(251, 30), 3),
}
"""The same for their second argument; and with the number here as the first, they reach all of a user."""

SUPERVISOR = 1

CLONE, IOCTL = Numbers(56, 220), Numbers(16, 29)
SOCKET, SOCKETPAIR = Numbers(41, 198), Numbers(53, 199)

NEW_NAMESPACES = 0x7E020000
"""CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID and NEWNET."""

TERMINAL_INPUT = (0x5412, 0x541C)
"""TIOCSTI and TIOCLINUX: they type into the terminal that they are given."""

SOCKET_FAMILIES = (1, 2, 10, 16)
"""Unix, IPv4, IPv6, netlink: the families that a network namespace contains. vsock, for one, is in none."""

_ARCHITECTURE: Mapping[Machine, int] = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_X32_BIT = 0x40000000

_NUMBER, _ARCH, _ARGUMENTS = 0, 4, 16  # offsets in struct seccomp_data
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _ERRNO, _KILL = 0x7FFF0000, 0x00050000, 0x80000000

Instruction = tuple[int, int, int, int]
"""Operation, how many instructions to skip when true and when false, operand."""


def assemble(machine: Machine) -> bytes:
    """The filter as an array of ``struct sock_filter``, little-endian as both machines are.

    Programs of another architecture are killed: their calls have other numbers.
    """
    program: list[Instruction] = [
        (_LOAD, 0, 0, _ARCH),
        (_EQUAL, 1, 0, _ARCHITECTURE[machine]),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER),
    ]
    if machine == "x86_64":
        program += _when(_AT_LEAST, _X32_BIT, [_refuse(errno.ENOSYS)])
    for numbers in REFUSED.values():
        program += _call(machine, numbers, [_refuse(errno.EPERM)])
    for numbers in MISSING.values():
        program += _call(machine, numbers, [_refuse(errno.ENOSYS)])
    program += _call(machine, CLONE, _unless(0, _ANY_BIT, [NEW_NAMESPACES], errno.EPERM))
    program += _call(machine, IOCTL, _unless(1, _EQUAL, TERMINAL_INPUT, errno.EPERM))
    for numbers in OF_A_PROCESS.values():
        program += _call(machine, numbers, _unless(0, _EQUAL, (SUPERVISOR,), errno.EPERM))
    for numbers, whole_user in OF_A_USER.values():
        of_a_user = [_argument(0), *_when(_EQUAL, whole_user, [_refuse(errno.EPERM)])]
        program += _call(machine, numbers, of_a_user + _unless(1, _EQUAL, (SUPERVISOR,), errno.EPERM))
    for numbers in (SOCKET, SOCKETPAIR):
        program += _call(machine, numbers, _only(0, SOCKET_FAMILIES, errno.EAFNOSUPPORT))
    program.append((_RETURN, 0, 0, _ALLOW))
    return b"".join(struct.pack("<HBBI", *instruction) for instruction in program)


def _refuse(number: int) -> Instruction:
    return (_RETURN, 0, 0, _ERRNO | number)


def _when(test: int, operand: int, then: list[Instruction]) -> list[Instruction]:
    return [(test, 0, len(then), operand), *then]


def _call(machine: Machine, numbers: Numbers, then: list[Instruction]) -> list[Instruction]:
    number: int | None = getattr(numbers, machine)
    return [] if number is None else _when(_EQUAL, number, then)


def _argument(index: int) -> Instruction:
    # The low half only: the kernel ignores the high one of these arguments, and so must the filter.
    return (_LOAD, 0, 0, _ARGUMENTS + 8 * index)


def _unless(index: int, test: int, operands: Iterable[int], number: int) -> list[Instruction]:
    refused = [part for operand in operands for part in _when(test, operand, [_refuse(number)])]
    return [_argument(index), *refused, (_RETURN, 0, 0, _ALLOW)]


def _only(index: int, values: Iterable[int], number: int) -> list[Instruction]:
    allowed = [part for value in values for part in _when(_EQUAL, value, [(_RETURN, 0, 0, _ALLOW)])]
    return [_argument(index), *allowed, _refuse(number)]
