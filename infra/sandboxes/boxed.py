"""One sandbox in its namespaces: how it is started, looked at from outside, ended, and ended by a later process."""

import asyncio
import json
import os
import select
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, suppress
from io import FileIO
from pathlib import Path
from typing import Any

import psutil
from pydantic import ValidationError

from infra.local.processes import ProcessId, alive, identify
from infra.sandboxes import bwrap, cgroups
from infra.sandboxes.bwrap import Descriptors
from infra.sandboxes.cgroups import ControlGroups, Group
from infra.sandboxes.stage import Stage
from schemas.base import Model, sha256
from schemas.sandbox import SandboxLimits

JOURNAL, LAST_WORDS = "journal", "last-words"
"""Files in a sandbox's folder: the supervisor's receipts, and what it or bwrap says when it cannot go on."""

START_S = 20.0
"""How long bwrap may take to make the namespaces, in seconds, on a machine that does much else."""

PAUSE_S, LOOKS = 0.003, 1700
"""How often, and how many times, it is looked whether a killed sandbox has gone: about five seconds."""

PROBE = Path(__file__).with_name("probe.py")
PROBE_LIMITS = SandboxLimits()

Command = Callable[[int, int], list[str]]
"""What is run, given the descriptors of its control socket and its journal."""


class StartFailed(Exception):
    """bwrap did not make the sandbox; in its own words."""


class Remains(Model):
    """What a later process finds a sandbox by: its first process, and its control groups."""

    folder: str
    first: ProcessId | None = None
    groups: tuple[str, ...] = ()


class BoxedSandbox:
    """Implements ``Launched``."""

    def __init__(
        self,
        control: socket.socket,
        folder: Path,
        bwrap: "subprocess.Popen[bytes]",
        about: dict[str, Any],
        group: Group,
    ) -> None:
        self.control = control
        self._bwrap, self._group = bwrap, group
        self._namespace = int(about["pid-namespace"])
        self._first = identify(int(about["child-pid"]))
        remains = Remains(folder=str(folder), first=self._first, groups=tuple(map(str, group.folders)))
        self.identity: dict[str, object] = remains.model_dump(mode="json")
        self.setup: dict[str, object] = {"pid_one": True}

    def processes(self) -> tuple[int, ...]:
        """All in its namespace of processes or in its control groups."""
        return tuple(sorted({*_members(self._namespace), *self._group.processes()}))

    def kill(self) -> None:
        """The kernel ends a namespace of processes with the first of them.

        bwrap is left to wait for it: without it, it would be a zombie for as long as the machine's init likes.
        """
        if self._first:
            _kill(self._first)
        else:
            self._bwrap.kill()

    def memory_kills(self) -> int:
        return self._group.memory_kills()

    async def gone(self) -> bool:
        for _ in range(LOOKS):
            if self._is_gone():
                return True
            await asyncio.sleep(PAUSE_S)
        return False

    def wait_gone(self) -> bool:
        """``gone`` for those who may wait."""
        return _in_time(self._is_gone)

    def _is_gone(self) -> bool:
        return self._bwrap.poll() is not None and not self.processes() and self._group.remove()


def start(
    stage: Stage, groups: ControlGroups, limits: SandboxLimits, folder: Path, command: Command | None = None
) -> BoxedSandbox:
    """Start a supervisor, or another ``command``, in a new sandbox, in the control groups from its first moment.

    Raises ``StartFailed`` and ``OSError``; nothing is left of it then.
    """
    group = groups.make(limits)
    try:
        with ExitStack() as ours:
            return _start(stage, group, limits, folder, command or _supervisor(stage), ours)
    except BaseException:
        _in_time(group.remove)
        raise


def _supervisor(stage: Stage) -> Command:
    return lambda control, journal: [*stage.supervisor, str(control), str(journal)]


def _start(
    stage: Stage, group: Group, limits: SandboxLimits, folder: Path, command: Command, ours: ExitStack
) -> BoxedSandbox:
    """``ours`` closes what was opened, and ends what was started unless all went well."""
    control, theirs = socket.socketpair()
    ours.enter_context(theirs)
    unless_started = ours.enter_context(ExitStack())
    unless_started.enter_context(control)
    (told, tells), (waits, releases) = _pipe(ours), _pipe(ours)
    journal = ours.enter_context((folder / JOURNAL).open("ab+", buffering=0))
    refused = ours.enter_context(stage.filter.open("rb", buffering=0))
    own = Descriptors(tells.fileno(), waits.fileno(), refused.fileno())
    passed = (theirs.fileno(), journal.fileno())
    arguments = [*bwrap.arguments(stage.room_for(limits), own), *command(*passed)]
    program = _spawn(stage, folder, arguments, (*own, *passed))
    unless_started.callback(_end, program)
    tells.close()  # or its end is never seen
    about = _read_status(told, program, folder)
    group.join(int(about["child-pid"]))
    releases.write(b"1")
    sandbox = BoxedSandbox(control, folder, program, about, group)
    unless_started.pop_all()
    return sandbox


def _pipe(ours: ExitStack) -> tuple[FileIO, FileIO]:
    reading, writing = os.pipe()
    return ours.enter_context(FileIO(reading, "rb")), ours.enter_context(FileIO(writing, "wb"))


def _spawn(
    stage: Stage, folder: Path, arguments: list[str], inherited: Collection[int]
) -> "subprocess.Popen[bytes]":
    """Start bwrap, under a name that ``sweep`` finds it by."""
    with (folder / LAST_WORDS).open("wb") as words:
        return subprocess.Popen(
            [mark_of(folder), *arguments],
            executable=stage.program,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=words,
            cwd="/",
            env={},
            pass_fds=inherited,
            user=stage.user,
            group=stage.user,
            extra_groups=None if stage.user is None else (),
            umask=0o022,
        )


def _read_status(told: FileIO, program: "subprocess.Popen[bytes]", folder: Path) -> dict[str, Any]:
    """What bwrap tells of the namespaces that it has made, in one line."""
    line = b""
    until = time.monotonic() + START_S
    while not line.endswith(b"\n"):
        ready, _, _ = select.select([told], [], [], max(0.0, until - time.monotonic()))
        part = told.read(4096) if ready else b""
        if not part:
            _end(program)
            words = (folder / LAST_WORDS).read_text(errors="replace")
            raise StartFailed(words if not ready or words else "bwrap ended and said nothing")
        line += part
    about: dict[str, Any] = json.loads(line)
    return about


def _end(program: "subprocess.Popen[bytes]") -> None:
    program.kill()
    program.wait()


def look_around(stage: Stage, groups: ControlGroups, folder: Path) -> dict[str, Any]:
    """What a sandbox tells of itself that was made to try. Raises ``StartFailed``, and ``OSError``."""
    folder.mkdir(parents=True, exist_ok=True)
    source = PROBE.read_text()
    program = str(stage.interpreter.program)
    sandbox = start(
        stage, groups, PROBE_LIMITS, folder, lambda control, _: [program, "-I", "-S", "-c", source, str(control)]
    )
    try:
        sandbox.control.settimeout(START_S)
        with sandbox.control.makefile("rb") as told:
            line = told.readline()
    finally:
        sandbox.control.close()
        sandbox.kill()
        left = not sandbox.wait_gone()
    if left:
        raise StartFailed("a sandbox that was killed did not go")
    if not line:
        raise StartFailed((folder / LAST_WORDS).read_text(errors="replace") or "its Python ended and said nothing")
    found: dict[str, Any] = json.loads(line)
    return found


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
    return _in_time(lambda: not any(map(alive, left)) and groups.remove())


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


def _members(namespace: int) -> set[int]:
    """All processes in a namespace of processes, by their ids outside of it."""
    named, found = f"pid:[{namespace}]", set()
    for name in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError):  # gone meanwhile, or not ours to look at and so not in it
            if os.readlink(f"/proc/{name}/ns/pid") == named:
                found.add(int(name))
    return found


def _kill(process: ProcessId | None) -> None:
    if process is not None and alive(process):
        with suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)


def _in_time(holds: Callable[[], bool]) -> bool:
    for _ in range(LOOKS):
        if holds():
            return True
        time.sleep(PAUSE_S)
    return False
