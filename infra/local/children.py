"""The supervisor's children as a table: how each starts, when it is ready, what shows that it is broken."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from infra.local.config import StackConfig
from infra.local.runtime import Runtime
from infra.local.temporal import TemporalServer
from infra.sockets import listening

SANDBOXES_STOP_S = 30.0
"""What ends with the stack is ended before it: hundreds of containers take their time."""


def _nothing() -> None:
    return None


def _always() -> bool:
    return True


def _touched(marker: Path) -> int:
    """A time that moves as long as somebody touches the file."""
    try:
        return marker.stat().st_mtime_ns
    except FileNotFoundError:
        return 0


@dataclass(frozen=True)
class Child:
    """One process to keep running.

    ``ready`` is asked with the process id. ``environment`` is added to what ``spawn`` inherits; a child that runs
    with another than the present one is restarted. ``prepare`` makes what it needs, ``clear`` removes what an
    earlier process left. ``stop_s`` is how long it may take to end, where that is more than the usual.
    ``intact`` is false when a ready process can no longer be reached. ``sign`` changes for
    as long as it does its work: one whose sign stands still hangs. ``folder`` is where it starts. ``inherits``
    names the secrets that it takes from our own environment.
    """

    name: str
    argv: Callable[[], list[str]]
    ready: Callable[[int], bool]
    sign: Callable[[], int]
    environment: Callable[[], dict[str, str]] = dict
    prepare: Callable[[], None] = _nothing
    clear: Callable[[], None] = _nothing
    intact: Callable[[], bool] = _always
    folder: Path | None = None
    inherits: tuple[str, ...] = ()
    stop_s: float = 0


def children(config: StackConfig, temporal: TemporalServer, runtime: Runtime) -> tuple[Child, ...]:
    """The embedded stack. All start at once and wait for each other; they are stopped in the other order.

    Temporal stands first, because its command settles the port that the worker is told.
    """
    settings = {
        **{name: value for name, value in config.settings.items() if name not in config.secrets},
        "TILTYARD_HOME": str(config.home),
        "TILTYARD_RUNTIME": str(config.runtime),
    }
    return (
        Child("temporal", temporal.argv, temporal.ready, temporal.answers, folder=temporal.folder),
        _listener("world", config.world, config.world_socket, settings, runtime),
        _listener("sandboxes", config.sandboxes, config.sandboxes_socket, settings, runtime, SANDBOXES_STOP_S),
        Child(
            "worker",
            lambda: list(config.worker),
            lambda pid: _holds(config.worker_ready, pid),
            lambda: _touched(config.worker_ready),
            lambda: {**settings, "TILTYARD_TEMPORAL_ADDRESS": temporal.address},
            prepare=runtime.ready,
            clear=lambda: runtime.clear(config.worker_ready.name),
            intact=config.worker_ready.exists,
            inherits=config.secrets,
        ),
    )


def _listener(
    name: str, argv: tuple[str, ...], path: Path, settings: dict[str, str], runtime: Runtime, stop_s: float = 0
) -> Child:
    """A process that serves on a socket, and touches it for as long as it does its work."""
    return Child(
        name,
        lambda: list(argv),
        lambda _: listening(path),
        lambda: _touched(path),
        lambda: settings,
        prepare=runtime.ready,
        clear=lambda: runtime.clear(path.name),
        intact=path.exists,
        stop_s=stop_s,
    )


def _holds(marker: Path, pid: int) -> bool:
    try:
        return marker.read_text().strip() == str(pid)
    except FileNotFoundError:
        return False
