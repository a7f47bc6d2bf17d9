"""Where a stack keeps its things, below one data folder."""

from dataclasses import dataclass
from pathlib import Path

PROCESSES = ("supervisor", "temporal", "world", "sandboxes", "worker")
"""The stack's processes, in the order in which they start."""


@dataclass(frozen=True)
class StackPaths:
    """The files of one stack. ``home`` is the data folder; nothing is created by naming a path."""

    home: Path

    @property
    def stack(self) -> Path:
        """Small files that say what runs; safe to delete while the stack is down."""
        return self.home / "stack"

    @property
    def state(self) -> Path:
        return self.stack / "state.json"

    @property
    def config(self) -> Path:
        return self.stack / "config.json"

    @property
    def lock(self) -> Path:
        """Held by a command while it starts or stops the stack."""
        return self.stack / "command.lock"

    @property
    def supervisor_lock(self) -> Path:
        """Held by the supervisor for as long as it lives."""
        return self.stack / "supervisor.lock"

    @property
    def pinned(self) -> Path:
        """Exists when ``up`` started the stack: it then never ends for being idle."""
        return self.stack / "pinned"

    @property
    def activity(self) -> Path:
        """Its time of change is that of the last command that used the stack."""
        return self.stack / "activity"

    @property
    def port(self) -> Path:
        return self.stack / "temporal.port"

    @property
    def runtime(self) -> Path:
        """Names the runtime folder in use."""
        return self.stack / "runtime"

    @property
    def cluster(self) -> Path:
        """Names the embedded cluster; the leases of this data folder carry the name."""
        return self.home / "cluster"

    @property
    def temporal_database(self) -> Path:
        return self.home / "temporal" / "temporal.db"

    @property
    def logs(self) -> Path:
        return self.home / "logs"

    def log(self, process: str) -> Path:
        return self.logs / f"{process}.log"

    def make(self) -> None:
        """Create the folders, private to the user."""
        for folder in (self.home, self.stack, self.logs, self.temporal_database.parent):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
