"""How a command is made of a copy of the supervisor."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # typeshed knows it as signal, which loads enum
import errno
import os
import resource

from infra.sandboxes.supervisor.files import FOLDER, Agent, write_all
from infra.sandboxes.supervisor.kernel import PR_SET_DUMPABLE, PR_SET_NO_NEW_PRIVS, Kernel
from infra.sandboxes.supervisor.limits import MAX_OPEN_FILES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Recipe:
    """How commands are run: all that is the same for each of them."""

    def __init__(
        self, work: int, environment: dict[str, str], limits: dict[str, Any], agent: Agent, own_user: bool
    ):
        self.work, self.agent = work, agent
        self.most_files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        self.environment = {name.encode(): value.encode() for name, value in environment.items()}
        self.search = environment.get("PATH", "").split(":")
        unchangeable = (_signal.SIGKILL, _signal.SIGSTOP)
        own = (
            number for number in range(1, _signal.NSIG) if _signal.getsignal(number) not in (_signal.SIG_DFL, None)
        )
        self.handled = [number for number in own if number not in unchangeable]
        self.rlimits = [  # (what, (when it is told by a signal where there is one, when it is over))
            (resource.RLIMIT_CPU, within(resource.RLIMIT_CPU, limits["cpu_s"], 1)),
            (resource.RLIMIT_AS, within(resource.RLIMIT_AS, limits["memory_bytes"])),
            (resource.RLIMIT_FSIZE, within(resource.RLIMIT_FSIZE, limits["disk_bytes"])),
            (resource.RLIMIT_NOFILE, within(resource.RLIMIT_NOFILE, MAX_OPEN_FILES)),
            (resource.RLIMIT_CORE, (0, 0)),
        ]
        if own_user:  # it counts all processes of a user: that may be more than the sandbox's
            self.rlimits.append((resource.RLIMIT_NPROC, within(resource.RLIMIT_NPROC, limits["processes"])))

    def become(
        self, kernel: Kernel, argv: list[bytes], streams: list[int], status: int, gate: int, proc: int
    ) -> None:
        """In the child: be set up, wait to be released, and become the program. Returns only by raising."""
        for number in self.handled:
            _signal.signal(
                number, _signal.SIG_DFL
            )  # what is ignored here, or was by whoever started us, would stay so
        os.setsid()
        for kind, values in self.rlimits:
            resource.setrlimit(kind, values)
        if self.agent.gid is not None:
            os.setgroups([])
            os.setresgid(self.agent.gid, self.agent.gid, self.agent.gid)
        if self.agent.uid is not None:
            os.setresuid(self.agent.uid, self.agent.uid, self.agent.uid)
        kernel.prctl(PR_SET_NO_NEW_PRIVS, 1)
        os.fchdir(self.work)
        os.umask(0o022)
        for number, fd in enumerate(streams):
            os.dup2(fd, number)
        os.write(status, os.readlink("self", dir_fd=proc).encode() if proc >= 0 else b"")
        close_all_but(sorted((status, gate)), self.most_files)
        kernel.prctl(PR_SET_DUMPABLE, 1)  # or the supervisor could not open what says who is killed first
        os.write(status, READY)
        if os.read(gate, 1) != b"!":
            os._exit(127)  # nobody is left to release it
        os.execve(self.find(os.fsdecode(argv[0])), argv, self.environment)  # noqa: S606 it is what was asked for

    def find(self, program: str) -> str:
        """Where a program is: in ``PATH`` as the agent sees it, unless it is a path itself."""
        if "/" in program:
            return program
        for folder in self.search:
            path = f"{folder or '.'}/{program}"
            if os.access(path, os.X_OK) and not os.path.isdir(path):
                return path
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))


def within(kind: int, value: int, more: int = 0) -> tuple[int, int]:
    """(soft, hard) limits: ``value``, and ``more`` until the end, as far as our own limit lets us."""
    most = resource.getrlimit(kind)[1]
    return (value, value + more) if most == resource.RLIM_INFINITY else (min(value, most), min(value + more, most))


READY = b"\n"
"""What a child says on its status between its number in ``PROC_FD`` and the error that kept it from its program."""


def close_all_but(kept: list[int], most: int) -> None:
    """Close all descriptors below ``most`` but the standard streams and those in ``kept``, which are in order."""
    first = 3
    for fd in (*kept, most):
        os.closerange(first, fd)
        first = fd + 1


class OutOfMemoryScores:
    """Makes commands the first that the kernel kills for want of memory; the supervisor never is one of them.

    The score is inherited, so a command must have it before it starts anything. If the supervisor had it while it
    forks, it would itself be killed by a fork for which there is no memory. A copy of the supervisor is closed to
    everybody, the supervisor included, and a program of the agent's must not wait. So the copy gives up all that is
    not the agent's, opens itself, and waits to be released.
    """

    def __init__(self, proc: int | None) -> None:
        """``proc`` is an open ``/proc`` that may be written to."""
        self.proc = os.open("/proc", FOLDER) if proc is None else proc

    def first_is(self, name: bytes) -> None:
        """``name`` is the number that a child of ours has in ``proc``."""
        try:
            fd = os.open(os.fsdecode(name) + "/oom_score_adj", os.O_WRONLY | os.O_CLOEXEC, dir_fd=self.proc)
        except OSError:
            return  # it has ended, or the machine does not let us; then it decides by size
        try:
            os.write(fd, b"1000")
        except OSError:
            pass
        finally:
            os.close(fd)


def stdin_of(data: bytes) -> int:
    if not data:
        return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    fd = os.memfd_create("stdin", os.MFD_CLOEXEC)
    try:
        write_all(fd, data)
        os.lseek(fd, 0, os.SEEK_SET)
    except BaseException:
        os.close(fd)
        raise
    return fd
