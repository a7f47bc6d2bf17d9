"""What Python has no name for: two functions of libc, called through the C part of ctypes."""

from __future__ import annotations

import _ctypes
import os

SIGACTION_CALL = {"x86_64": 13, "aarch64": 134}
PR_SET_DUMPABLE, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 4, 36, 38


class _Long(_ctypes._SimpleCData):  # type: ignore[type-arg]
    _type_ = "l"


class _Pointer(_ctypes._SimpleCData):  # type: ignore[type-arg]
    _type_ = "z"


class _Call(_ctypes.CFuncPtr):
    _flags_ = 1 | 8  # the C calling convention; errno is kept
    _restype_ = _Long


class Kernel:
    """The two functions of libc that Python has no name for."""

    def __init__(self) -> None:
        library = _ctypes.dlopen(None, 0)  # type: ignore[arg-type]  # the program itself, and libc with it
        self._syscall, self._prctl = (_Call(_ctypes.dlsym(library, name)) for name in ("syscall", "prctl"))

    def prctl(self, option: int, value: int) -> bool:
        return bool(self._prctl(_Long(option), _Long(value), _Long(0), _Long(0), _Long(0)) == 0)

    def call(self, number: int, *arguments: int | bytes) -> int:
        """A system call by its number; -1 when it fails."""
        given = (one if isinstance(one, bytes) else _Long(one) for one in arguments)
        return int(self._syscall(_Long(number), *given))

    def listener(self, call: int, flags: int, program: bytes) -> int:
        """seccomp(2): the descriptor of a new listener, or -1. ``program`` are instructions of eight bytes."""
        pointer = bytes(memoryview(_Pointer(program)))
        filter_of = (len(program) // 8).to_bytes(8, "little") + pointer
        set_mode_filter = 1
        return int(self._syscall(_Long(call), _Long(set_mode_filter), _Long(flags), filter_of))

    def stop_ignoring_its_own(self) -> None:
        """The C library keeps two signals for itself and lets nobody set them. Whoever started us may have had them
        ignored, and every command would inherit that."""
        number = SIGACTION_CALL.get(os.uname().machine)
        for own in (32, 33) if number is not None else ():
            self._syscall(_Long(number), _Long(own), bytes(32), None, _Long(8))
