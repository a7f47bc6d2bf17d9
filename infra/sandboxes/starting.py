"""How a sandbox is started: bwrap makes the namespaces and waits until its child is in the control groups."""

import fcntl
import json
import os
import select
import socket
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack
from io import FileIO
from pathlib import Path
from typing import Any, NamedTuple

from infra.sandboxes import bwrap
from infra.sandboxes.boxed import BoxedSandbox, mark_of
from infra.sandboxes.bwrap import Descriptors
from infra.sandboxes.cgroups import ControlGroups, Group
from infra.sandboxes.low_ports import open_low_ports
from infra.sandboxes.mounts import as_seen_by, limit_terminals
from infra.sandboxes.names import hosts_file
from infra.sandboxes.records import JOURNAL
from infra.sandboxes.stage import Stage
from infra.sandboxes.volumes import MountedVolumes, volumes_of
from schemas.sandbox import SandboxLimits

LAST_WORDS = "last-words"
"""A file in a sandbox's folder: what bwrap or the supervisor says when it cannot go on."""

START_S = 20.0
"""How long bwrap may take to make the namespaces, in seconds, on a machine that does much else."""

Command = Callable[[int, int, int], list[str]]
"""What is run, given the descriptors of its control socket, its journal and the host's ``/proc``."""


class StartFailed(Exception):
    """bwrap did not make the sandbox; in its own words."""


class Begun(NamedTuple):
    """A bwrap at work. ``unless_finished`` undoes all of it; ``told`` is what it says of the namespaces, what goes
    into ``release`` lets it go on, and ``waits`` is the other end. ``volumes`` are to be unmounted in the end, by
    the thread that began."""

    program: "subprocess.Popen[bytes]"
    control: socket.socket
    told: FileIO
    waits: FileIO
    release: FileIO
    group: Group
    folder: Path
    volumes: MountedVolumes | None
    serves: bool
    unless_finished: ExitStack


def begin(
    stage: Stage,
    groups: ControlGroups,
    limits: SandboxLimits,
    folder: Path,
    command: Command | None = None,
    services: Sequence[str] = (),
) -> Begun:
    """Start bwrap with a supervisor, or another ``command``. Linux ends it with the thread that does this, which
    must see what the stage is made of. ``services`` are names that are found on the loopback interface, where
    everybody in it can listen on any port then. Raises ``OSError``; nothing is left of it then."""
    with ExitStack() as undo, ExitStack() as ours, ExitStack() as undo_here:
        group = groups.make(limits)
        undo.callback(groups.abandon, group)
        user = stage.user_of(folder)
        mounted = _mounted(stage, limits, user, undo_here)
        control, theirs = socket.socketpair()
        undo.enter_context(control)
        ours.enter_context(theirs)
        (told, tells), (waits, release) = _pipe(undo, ours), _pipe(undo, undo)
        refused = ours.enter_context(stage.filter.open("rb", buffering=0))
        own = Descriptors(tells.fileno(), waits.fileno(), refused.fileno())
        passed = (theirs.fileno(), *_journal_and_proc(folder, ours))
        texts = [(ours.enter_context(_text_of(hosts_file(services))).fileno(), "/etc/hosts")] if services else []
        room = stage.room._replace(writable=mounted.volumes if mounted else volumes_of(limits), texts=texts)
        arguments = [*bwrap.arguments(room, own), *(command or _supervisor(stage))(*passed)]
        program = _spawn(stage.program, user, folder, arguments, (*own, *passed, *(text for text, _ in texts)))
        undo.callback(_end, program)
        undo_here.pop_all()
        return Begun(program, control, told, waits, release, group, folder, mounted, bool(services), undo.pop_all())


def _mounted(stage: Stage, limits: SandboxLimits, user: int | None, undo: ExitStack) -> MountedVolumes | None:
    """What the sandbox writes to, where we may mount it and it has a user of its own."""
    if not stage.volumes or not user:
        return None
    mounted = MountedVolumes(stage.volumes, limits, user)
    undo.callback(mounted.unmount)
    return mounted


def _journal_and_proc(folder: Path, ours: ExitStack) -> tuple[int, int]:
    journal = ours.enter_context((folder / JOURNAL).open("ab+", buffering=0))
    proc = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    ours.callback(os.close, proc)
    return journal.fileno(), proc


def finish(begun: Begun, within_s: float = START_S) -> BoxedSandbox:
    """Wait for the namespaces, put the first process into the control groups and let it go on.

    Raises ``StartFailed`` and ``OSError``, of which ``TimeoutError`` is one; nothing is left of it then.
    """
    with begun.unless_finished as undo:
        first = int(_read_status(begun, within_s)["child-pid"])
        begun.group.join(first)
        if begun.serves:
            open_low_ports(first)
        begun.release.write(b"1")
        _await_taken(begun, within_s)
        if begun.volumes:  # only who may mount may do this
            as_seen_by(first, limit_terminals)
        sandbox = BoxedSandbox(begun.control, begun.folder, begun.program, first, begun.group)
        undo.pop_all()
    for pipe in (begun.told, begun.waits, begun.release):
        pipe.close()
    return sandbox


def _supervisor(stage: Stage) -> Command:
    return lambda *passed: [*stage.supervisor, *map(str, passed)]


def _pipe(reads: ExitStack, writes: ExitStack) -> tuple[FileIO, FileIO]:
    reading, writing = os.pipe()
    return reads.enter_context(FileIO(reading, "rb")), writes.enter_context(FileIO(writing, "wb"))


def _text_of(text: str) -> FileIO:
    """A file in memory, to be read from its beginning."""
    file = FileIO(os.memfd_create("text"), "rb+")
    file.write(text.encode())
    file.seek(0)
    return file


def _spawn(
    bwrap_program: Path, user: int | None, folder: Path, arguments: list[str], inherited: Collection[int]
) -> "subprocess.Popen[bytes]":
    """Start bwrap, under a name that ``sweep`` finds it by."""
    with (folder / LAST_WORDS).open("wb") as words:
        return subprocess.Popen(
            [mark_of(folder), *arguments],
            executable=bwrap_program,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=words,
            cwd="/",
            env={},
            pass_fds=inherited,
            user=user,
            group=user,
            extra_groups=None if user is None else (),
            umask=0o022,
        )


def _read_status(begun: Begun, within_s: float) -> dict[str, Any]:
    """What bwrap tells of the namespaces that it has made, in one line."""
    line = b""
    until = time.monotonic() + within_s
    while not line.endswith(b"\n"):
        ready, _, _ = select.select([begun.told], [], [], max(0.0, until - time.monotonic()))
        if not ready:
            raise TimeoutError(f"bwrap has not made the namespaces within {within_s:g} s")
        part = begun.told.read(4096)
        if not part:
            _end(begun.program)
            raise StartFailed(last_words(begun.folder) or "bwrap did not make the namespaces, and said nothing")
        line += part
    about: dict[str, Any] = json.loads(line)
    return about


def _await_taken(begun: Begun, within_s: float) -> None:
    """Wait until bwrap has taken what lets it go on: by then it has mounted everything."""
    until = time.monotonic() + within_s
    while struct.unpack("i", fcntl.ioctl(begun.waits, termios.FIONREAD, bytes(4)))[0]:
        if time.monotonic() > until:
            raise TimeoutError(f"bwrap has not mounted everything within {within_s:g} s")
        if begun.program.poll() is not None:
            raise StartFailed(last_words(begun.folder) or "bwrap did not mount everything, and said nothing")
        time.sleep(0.001)


def last_words(folder: Path) -> str:
    """What bwrap or the supervisor of a sandbox said when it could not go on."""
    return (folder / LAST_WORDS).read_text(errors="replace").strip()


def _end(program: "subprocess.Popen[bytes]") -> None:
    program.kill()
    program.wait()
