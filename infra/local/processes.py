"""Processes by identity.

A process is recorded as its id and its start, never as a name: the id alone is used again by the system, and
ending the wrong process would be worse than leaving one.
"""

import ctypes
import os
import platform
import signal
import subprocess
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

import psutil

from schemas.base import Model

_LINUX = platform.system() == "Linux"


class ProcessId(Model):
    """One process: ``started`` tells it from an earlier or later one with the same ``pid``."""

    pid: int
    started: str


def identify(pid: int) -> ProcessId | None:
    """The identity of a process that runs now; ``None`` when there is none or it is a zombie."""
    started = _started(pid)
    return ProcessId(pid=pid, started=started) if started else None


def alive(identity: ProcessId | None) -> bool:
    """Whether exactly this process still runs."""
    return identity is not None and _started(identity.pid) == identity.started


def _started(pid: int) -> str:
    """The start as text. On Linux in ticks of one boot, which a change of the wall clock does not touch."""
    if _LINUX:
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        except OSError:
            return ""
        return "" if fields[0] in ("Z", "X") else f"{boot}/{fields[19]}"
    try:
        process = psutil.Process(pid)
        return "" if process.status() == psutil.STATUS_ZOMBIE else str(process.create_time())
    except psutil.Error:
        return ""


def end(identity: ProcessId | None, grace_s: float = 10.0) -> bool:
    """End the process: TERM, and KILL when ``grace_s`` has passed. True when there was one to end."""
    if identity is None or not alive(identity):
        return False
    for number, patience_s in ((signal.SIGTERM, grace_s), (signal.SIGKILL, 5.0)):
        try:
            os.kill(identity.pid, number)
        except ProcessLookupError:
            return True
        if gone(identity, patience_s):
            return True
    return True


def gone(identity: ProcessId | None, within_s: float) -> bool:
    """Wait until the process has ended, a zombie counting as ended; False when it still runs."""
    deadline = time.monotonic() + within_s
    while alive(identity):
        if time.monotonic() >= deadline:
            return False
        time.sleep(0.02)
    return True


def spawn(
    argv: Sequence[str],
    log: Path,
    environment: Mapping[str, str],
    folder: Path | None = None,
    inherits: Collection[str] = (),
) -> "subprocess.Popen[bytes]":
    """Start a child of this process that dies with it. Its output goes to ``log``. ``folder`` is where it
    starts, else where we did.

    It inherits the environment, but for our own variables: of these it sees those in ``environment``, and those
    that ``inherits`` names. Call it from the main thread: Linux ties the child's life to the thread that started
    it. And from a process with no other thread: a function runs between fork and exec.
    """
    with log.open("ab") as out:
        return subprocess.Popen(
            argv,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            env={**_inherited(os.environ, inherits), **environment},  # noqa: TID251 handed on, not read
            start_new_session=True,
            preexec_fn=_dies_with(os.getpid()),
        )


def _inherited(environment: Mapping[str, str], ours: Collection[str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if not name.startswith("TILTYARD_") or name in ours}


def _dies_with(parent: int) -> Callable[[], None] | None:
    """What a child does before it becomes its program, so that a killed parent leaves nothing (Linux only)."""
    if not _LINUX:
        return None
    libc = ctypes.CDLL(None, use_errno=True)
    set_parent_death_signal = 1

    def before_exec() -> None:
        libc.prctl(set_parent_death_signal, signal.SIGKILL)
        if os.getppid() != parent:  # it died between the fork and the line above
            os._exit(1)

    return before_exec


def keep_to_itself() -> None:
    """Let no other process of this user read the environment and the memory of this one (Linux; root still may)."""
    if _LINUX:
        set_dumpable = 4
        ctypes.CDLL(None, use_errno=True).prctl(set_dumpable, 0)


def spawn_detached(argv: list[str], log: Path) -> int:
    """Start a process that outlives this one; its process id."""
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, str(log), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600),
        (os.POSIX_SPAWN_DUP2, 1, 2),
    ]
    return os.posix_spawn(argv[0], argv, os.environ, file_actions=actions)  # noqa: TID251 handed on, not read
