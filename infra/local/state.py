"""What the supervisor says of itself and its children, and how commands read it."""

import os
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError

from infra.local.processes import ProcessId, alive
from schemas.base import Model

Phase = Literal["starting", "ready", "stopping", "stopped", "failed"]


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
    except (FileNotFoundError, NotADirectoryError, ValidationError):
        return None


def write_atomically(path: Path, text: str) -> None:
    """Readers see the old text or the new one, never a part. Raises ``FileNotFoundError`` without the folder."""
    fresh = path.with_name(f"{path.name}.{os.getpid()}.new")
    fresh.write_text(text)
    fresh.replace(path)
