"""The filter, run by a small interpreter of its instructions: what it answers to each call on each machine."""

import errno
import os
import platform
import re
import struct
from pathlib import Path
from typing import get_args

import pytest

from infra.sandboxes import seccomp
from infra.sandboxes.seccomp import Machine, assemble

ALLOW, KILL = 0x7FFF0000, 0x80000000
ARCHITECTURE = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
MACHINES: tuple[Machine, ...] = get_args(Machine)
HEADERS = {
    "x86_64": "/usr/include/x86_64-linux-gnu/asm/unistd_64.h",
    "aarch64": "/usr/include/asm-generic/unistd.h",
}


def answer(program: bytes, arch: int, number: int, *arguments: int) -> int:
    data = struct.pack("<IIQ6Q", number, arch, 0, *arguments, *[0] * (6 - len(arguments)))
    code = list(struct.iter_unpack("<HBBI", program))
    at = value = 0
    while True:
        operation, when, otherwise, operand = code[at]
        at += 1
        if operation == 0x06:
            return int(operand)
        if operation == 0x20:
            value = struct.unpack_from("<I", data, operand)[0]
            continue
        held = {0x15: value == operand, 0x35: value >= operand, 0x45: bool(value & operand)}[operation]
        at += when if held else otherwise


def refused(number: int) -> int:
    return 0x00050000 | number


@pytest.mark.parametrize("machine", MACHINES)
def test_every_call_of_the_list_is_refused(machine: Machine) -> None:
    program, arch = assemble(machine), ARCHITECTURE[machine]
    for name, numbers in seccomp.REFUSED.items():
        number = getattr(numbers, machine)
        if number is not None:
            assert answer(program, arch, number) == refused(errno.EPERM), name


@pytest.mark.parametrize("machine", MACHINES)
def test_all_other_calls_are_allowed(machine: Machine) -> None:
    program, arch = assemble(machine), ARCHITECTURE[machine]
    special = (*seccomp.MISSING.values(), seccomp.SOCKET, seccomp.SOCKETPAIR)
    listed = {getattr(numbers, machine) for numbers in (*seccomp.REFUSED.values(), *special)}
    for number in set(range(500)) - listed:
        assert answer(program, arch, number) == ALLOW, number


@pytest.mark.parametrize("machine", MACHINES)
def test_a_process_may_be_made_and_a_namespace_may_not(machine: Machine) -> None:
    program, arch = assemble(machine), ARCHITECTURE[machine]
    clone = getattr(seccomp.CLONE, machine)
    assert answer(program, arch, clone, 0x01200011) == ALLOW  # as fork does
    for bit in (0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000):
        assert answer(program, arch, clone, bit | 17) == refused(errno.EPERM), hex(bit)
    for name, numbers in seccomp.MISSING.items():
        assert answer(program, arch, getattr(numbers, machine)) == refused(errno.ENOSYS), name


@pytest.mark.parametrize("machine", MACHINES)
def test_the_supervisor_is_not_slowed_down(machine: Machine) -> None:
    program, arch = assemble(machine), ARCHITECTURE[machine]
    for name, numbers in seccomp.OF_A_PROCESS.items():
        for pid, expected in (
            (0, ALLOW),
            (2, ALLOW),
            (1, refused(errno.EPERM)),
            (1 << 32 | 1, refused(errno.EPERM)),
        ):
            assert answer(program, arch, getattr(numbers, machine), pid, 7) == expected, (name, pid)
    for name, (numbers, whole_user) in seccomp.OF_A_USER.items():
        for which, who, expected in (
            (0, 0, ALLOW),
            (1, 7, ALLOW),
            (0, 1, refused(errno.EPERM)),
            (1, 1, refused(errno.EPERM)),
            (whole_user, 0, refused(errno.EPERM)),
            (1 << 32 | whole_user, 0, refused(errno.EPERM)),
        ):
            assert answer(program, arch, getattr(numbers, machine), which, who, 19) == expected, (name, which, who)


@pytest.mark.parametrize("machine", MACHINES)
def test_nothing_is_typed_into_a_terminal(machine: Machine) -> None:
    program, arch, ioctl = assemble(machine), ARCHITECTURE[machine], getattr(seccomp.IOCTL, machine)
    assert answer(program, arch, ioctl, 0, 0x5401) == ALLOW
    assert answer(program, arch, ioctl, 0, 0x5412) == refused(errno.EPERM)
    # The kernel looks at the low half of the argument alone.
    assert answer(program, arch, ioctl, 0, 1 << 32 | 0x5412) == refused(errno.EPERM)


@pytest.mark.parametrize("machine", MACHINES)
def test_only_sockets_that_stay_in_the_namespace(machine: Machine) -> None:
    program, arch = assemble(machine), ARCHITECTURE[machine]
    for numbers in (seccomp.SOCKET, seccomp.SOCKETPAIR):
        found = {
            family for family in range(64) if answer(program, arch, getattr(numbers, machine), family) == ALLOW
        }
        assert found == set(seccomp.SOCKET_FAMILIES)


def test_programs_of_other_architectures_are_killed() -> None:
    assert answer(assemble("x86_64"), 0x40000003, 20) == KILL  # i386
    assert answer(assemble("aarch64"), 0x40000028, 20) == KILL  # 32-bit ARM
    assert answer(assemble("x86_64"), ARCHITECTURE["x86_64"], 0x40000000 | 39) == refused(errno.ENOSYS)  # x32


@pytest.mark.parametrize("machine", MACHINES)
def test_the_numbers_are_those_of_the_kernels_headers(machine: Machine) -> None:
    header = Path(HEADERS[machine])
    if not header.exists():
        pytest.skip(f"this machine has no {header}")
    known = {
        found[1]: int(found[2]) for found in re.finditer(r"__NR(?:3264)?_(\w+)\s+(\d+)$", header.read_text(), re.M)
    }
    listed = {
        **seccomp.REFUSED,
        **seccomp.OF_A_PROCESS,
        **{name: numbers for name, (numbers, _) in seccomp.OF_A_USER.items()},
        "clone": seccomp.CLONE,
        **seccomp.MISSING,
        "ioctl": seccomp.IOCTL,
        "socket": seccomp.SOCKET,
        "socketpair": seccomp.SOCKETPAIR,
    }
    wrong = {
        name: (getattr(numbers, machine), known[name])
        for name, numbers in listed.items()
        if name in known and getattr(numbers, machine) != known[name]
    }
    assert not wrong
    assert sum(name in known for name in listed) > 40


def test_this_machine_is_known() -> None:
    if os.uname().sysname != "Linux":
        pytest.skip("filters are for Linux")
    assert platform.machine() in MACHINES
