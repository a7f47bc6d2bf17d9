"""What holds a sandbox on this machine, judged from what was found in one (``probe``)."""

from collections.abc import Callable, Collection, Mapping
from typing import Any

from infra.sandboxes.bwrap import INSIDE_ID
from infra.sandboxes.volumes import Volume
from schemas.sandbox import Enforced

Found = Mapping[str, Any]

OLDEST = (3, 9)
"""The oldest Python that the supervisor runs on."""

FORKS = 8
"""How many processes the probe allowed itself."""


def _is_closed(told: Found) -> bool:
    status = told["status"]
    return (
        not told["written"]
        and not told["namespaces"]
        and status["NoNewPrivs"] == "1"
        and status["Seccomp"] == "2"
        and int(status["CapBnd"], 16) == 0
    )


def _is_silent(told: Found) -> bool:
    return set(told["interfaces"]) <= {"lo"} and not told["routes"] and not told["vsock"]


REQUIRED: Mapping[str, Callable[[Found], bool]] = {
    f"Python {OLDEST[0]}.{OLDEST[1]} or later": lambda told: tuple(told["version"]) >= OLDEST,
    "a process and a user of its own": lambda told: told["ids"] == [INSIDE_ID, INSIDE_ID, 1],
    "a limit of processes that counts its own alone (Linux 5.14 or later)": lambda told: told["processes"] > 1,
    "nothing but its own folders to write to, and no way to new rights": _is_closed,
    "no network": _is_silent,
}
"""Without one of these it is no sandbox."""


def lacking(told: Found) -> str:
    """What it ought to be and is not; empty when it is a sandbox."""
    return "; ".join(name for name, holds in REQUIRED.items() if not holds(told))


def enforced(told: Found, groups: Collection[Enforced], volumes: Collection[Volume]) -> tuple[Enforced, ...]:
    """What a sandbox can be held to.

    Memory only by control groups: without them each process is held to it, but not all of them together. CPU and
    output are the supervisor's, whatever the machine.
    """
    holds: Mapping[Enforced, bool] = {
        "cpu": True,
        "memory": "memory" in groups,
        "processes": "processes" in groups or told["processes"] == FORKS,
        "processors": "processors" in groups,
        "disk": told["writable_bytes"] == {volume.name: volume.size for volume in volumes},
        "file_count": told["writable_files"] == {volume.name: volume.files for volume in volumes},
        "output": True,
        "network": _is_silent(told),
        "files": _is_closed(told),
    }
    return tuple(name for name, held in holds.items() if held)
