"""What a stack is made of: handed by a command to the supervisor, which imports nothing of the workers."""

from pathlib import Path

from pydantic import Field

from infra.local.paths import StackPaths
from schemas.base import Model, canonical, digest_of


class Patience(Model):
    """How long the supervisor waits for what. All in seconds."""

    start_s: float = Field(default=60, gt=0, description="for a child to become ready")
    stop_s: float = Field(default=10, gt=0, description="between asking a child to end and killing it")
    quick_s: float = Field(default=5, ge=0, description="a child that dies sooner after a start died quickly")
    quick_deaths: int = Field(default=6, ge=1, description="quick deaths in a row after which it gives up")
    backoff_s: tuple[float, ...] = Field(default=(0.1, 0.3, 1, 2, 5), min_length=1)
    idle_s: float = Field(default=900, gt=0, description="without a command or an episode, before it ends")
    silence_s: float = Field(
        default=30, gt=0, description="without a sign of life from a ready child, before a kill"
    )
    ask_s: float = Field(default=5, gt=0, description="between questions to a child that shows no sign by itself")
    keep_s: float = Field(default=30, gt=0, description="between looks at idleness and at the logs' sizes")


class StackConfig(Model):
    """One stack.

    ``temporal``, ``world``, ``sandboxes`` and ``worker`` are the commands that start each process, without what
    the supervisor adds. ``busy_query`` is a Temporal visibility query for the workflows that keep the stack
    from being idle. ``settings`` are the variables that its processes read, beside those that the stack sets
    itself. ``secrets`` names those of which only a digest is here: the worker inherits them. ``code`` is a
    digest of the program. A stack of another program or with other settings is restarted.
    """

    home: Path
    runtime: Path
    code: str
    temporal: tuple[str, ...]
    world: tuple[str, ...]
    sandboxes: tuple[str, ...]
    worker: tuple[str, ...]
    world_socket: Path
    sandboxes_socket: Path
    settings: dict[str, str] = Field(default_factory=dict)
    secrets: tuple[str, ...] = ()
    temporal_namespace: str = "default"
    busy_query: str = 'ExecutionStatus="Running" AND WorkflowType="Episode"'
    patience: Patience = Patience()

    @property
    def paths(self) -> StackPaths:
        return StackPaths(self.home)

    @property
    def worker_ready(self) -> Path:
        """The worker writes its process id here when it polls."""
        return self.runtime / "worker.ready"

    @property
    def text(self) -> str:
        """As JSON."""
        return canonical(self).decode("utf-8", "surrogatepass")

    @property
    def digest(self) -> str:
        return digest_of(self)
