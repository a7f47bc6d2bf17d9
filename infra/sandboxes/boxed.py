"""One sandbox in its namespaces: how it is looked at from outside, ended, and ended by a later process."""

import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
from pydantic import ValidationError

from infra.local.processes import ProcessId, alive, identify
from infra.sandboxes import cgroups
from infra.sandboxes.cgroups import Group
from infra.sandboxes.launching import ITSELF, Renewal
from infra.sandboxes.looking import in_time
from infra.sandboxes.records import JOURNAL
from schemas.base import Model, sha256


class Remains(Model):
    """What a later process finds a sandbox by: its first process, and its control groups."""

    folder: str
    first: ProcessId | None = None
    groups: tuple[str, ...] = ()


class BoxedSandbox:
    """Implements ``Launched``. ``first`` is the process that its namespace of processes begins and ends with."""

    def __init__(
        self, control: socket.socket, folder: Path, bwrap: "subprocess.Popen[bytes]", first: int, group: Group
    ) -> None:
        self.control = control
        self._bwrap, self._group = bwrap, group
        self._first = identify(first)
        remains = Remains(folder=str(folder), first=self._first, groups=tuple(map(str, group.folders)))
        self.identity: dict[str, object] = remains.model_dump(mode="json")
        self.made_of = ITSELF
        self.setup: dict[str, object] = {"pid_one": True}
        self.journal = folder / JOURNAL
        self.renewal: Renewal | None = None

    def processes(self) -> tuple[int, ...]:
        return cgroups.everyone(self._first, self._group)

    def memory_kills(self) -> int:
        return self._group.memory_kills()

    def end(self) -> bool:
        """The kernel ends a namespace of processes with the first of them.

        bwrap is left to wait for it: without it, it would be a zombie for as long as the machine's init likes.
        """
        if self._first:
            _kill(self._first)
        else:
            self._bwrap.kill()
        return in_time(self._is_gone)

    def _is_gone(self) -> bool:
        return self._bwrap.poll() is not None and not self.processes() and self._group.remove()


def sweep(identity: dict[str, object]) -> bool:
    """End what an earlier process left of a sandbox; whether nothing is left. At least its ``folder`` is known."""
    try:
        remains = Remains.model_validate(identity)
    except ValidationError:  # a record that was cut short, or comes from another version
        remains = Remains(folder=str(identity["folder"]))
    groups = Group(tuple(Path(group) for group in remains.groups if cgroups.is_ours(Path(group))))
    left = [remains.first, *_marked(mark_of(Path(remains.folder)))]
    for process in left:
        _kill(process)
    for group in groups.folders:
        cgroups.kill(group)
    return in_time(lambda: not any(map(alive, left)) and groups.remove())


def mark_of(folder: Path) -> str:
    """The name under which the bwrap of a sandbox runs, as an operator sees it too."""
    return f"tiltyard-sandbox-{sha256(os.fsencode(folder))[7:23]}"


def _marked(mark: str) -> Iterator[ProcessId]:
    """The bwrap of that name, and all that it has started."""
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.cmdline()[:1] == [mark]:
                yield from filter(
                    None, (identify(each.pid) for each in (process, *process.children(recursive=True)))
                )


def _kill(process: ProcessId | None) -> None:
    if process is not None and alive(process):
        with suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)
