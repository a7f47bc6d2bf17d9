"""What the supervisor says of itself and its children, and how commands read it."""

import os
import shutil
import time
from contextlib import suppress
from pathlib import Path
from typing import Literal

from filelock import FileLock, Timeout
from pydantic import Field, ValidationError

from infra.local.paths import StackPaths
from infra.local.processes import ProcessId, alive
from schemas.base import Model
from tiltyard.errors import StackFailed

Phase = Literal["starting", "ready", "stopping", "stopped", "failed"]


REWRITE_S = 15.0
"""How long a supervisor may take to notice that its state file was damaged."""

SILENT_S = 30.0
"""A process that touches its file every second and has not done so for this long hangs, or the machine does."""


class ProcessState(Model):
    """One process of the stack. ``since`` is when it came up, in seconds of the Unix epoch."""

    name: str
    process: ProcessId | None = None
    state: Literal["waiting", "starting", "ready", "ending", "restarting", "ended"] = "waiting"
    since: float = 0
    restarts: int = 0
    detail: str = ""


class StackState(Model):
    """The whole stack as its supervisor last wrote it. ``message`` says why it ended or failed."""

    phase: Phase
    supervisor: ProcessId
    config_digest: str
    settings: dict[str, str] = Field(default_factory=dict)
    address: str = ""
    message: str = ""
    processes: tuple[ProcessState, ...] = ()

    @property
    def running(self) -> bool:
        """Whether the supervisor lives: what the file says is true only as long as it does."""
        return alive(self.supervisor)


def read_state(path: Path) -> StackState | None:
    """The recorded state; ``None`` when there is none, or one that cannot be read (then it is not trusted)."""
    try:
        return StackState.model_validate_json(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError, ValidationError):
        return None


def current_state(paths: StackPaths) -> StackState | None:
    """The recorded state. Where it cannot be read although a supervisor lives, the one that it soon writes anew.

    Raises ``StackFailed`` when that does not come.
    """
    deadline = time.monotonic() + REWRITE_S
    while (state := read_state(paths.state)) is None and held(paths.supervisor_lock):
        if time.monotonic() > deadline:
            raise StackFailed(
                f"a supervisor holds {paths.supervisor_lock} and does not say what runs: end the process that "
                "holds it, then run `tiltyard doctor`"
            )
        time.sleep(0.1)
    return state


def held(lock: Path) -> bool:
    """Whether a process holds the lock; one that cannot be looked at is held by none of ours."""
    if not lock.exists():
        return False
    try:
        with FileLock(lock, timeout=0):
            return False
    except Timeout:
        return True
    except OSError:
        return False


def silence_s(marker: Path) -> float:
    """Seconds since the file was last touched; 0 where there is none."""
    try:
        return time.time() - marker.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def keep_written(path: Path, text: str) -> None:
    """Have the file say this, whatever it says now; its time of change is a sign of life of the caller's."""
    if _bytes_of(path) == text.encode():
        os.utime(path)
        return
    if path.is_dir():
        discard(path)
    write_atomically(path, text)


def _bytes_of(path: Path) -> bytes:
    with suppress(OSError):
        return path.read_bytes()
    return b""


def discard(path: Path) -> None:
    """Remove what is there: a file, or a folder that has no business there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def write_atomically(path: Path, text: str) -> None:
    """Readers see the old text or the new one, never a part. Raises ``FileNotFoundError`` without the folder."""
    fresh = path.with_name(f"{path.name}.{os.getpid()}.new")
    fresh.write_text(text)
    fresh.replace(path)
