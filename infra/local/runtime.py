"""The runtime folder: where sockets and marker files live.

The path of a unix socket is short, and a data folder may lie deeper. So sockets live in a short folder of their
own, private to the user, which the data folder names.
"""

import os
import stat
import tempfile
import time
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from infra.local.hold import FolderHold
from infra.local.paths import StackPaths
from infra.local.state import write_atomically
from infra.sockets import LONGEST_PATH_BYTES, fits
from tiltyard.errors import StackFailed

LONGEST_NAME = "sandboxes.sock"
LONGEST_FOLDER = LONGEST_PATH_BYTES - len("/" + LONGEST_NAME)

NAMES = ("world.sock", "sandboxes.sock", "worker.ready")
"""What a stack makes there."""

LINE_S = 30.0
"""How long a new supervisor waits for one that is ending."""

LAST_CHILD_S = 5.0
"""How long what a killed supervisor was starting may take to become its program, on a busy machine."""


def runtime_folder(home: Path) -> Path:
    """The runtime folder of a data folder: the one in use, else the one that would be made.

    Nothing is created. The name depends only on the data folder, so two commands agree on it.
    """
    return recorded_folder(home) or usual_folder(home)


def recorded_folder(home: Path) -> Path | None:
    """The folder that the data folder names; ``None`` when it names none, or what it holds names no folder."""
    try:
        lines = StackPaths(home).runtime.read_text().splitlines()
    except (OSError, UnicodeDecodeError):  # a folder that may not be read is told by what needs it
        return None
    named = len(lines) == 1 and "\0" not in lines[0] and Path(lines[0]).is_absolute()
    return Path(lines[0]) if named else None


def usual_folder(home: Path) -> Path:
    """The runtime folder that is ours to make and to remove; another one is somebody's choice.

    ``home`` is absolute and without links: two names of one data folder must not have two.
    """
    key = sha256(os.fsencode(home)).hexdigest()[:12]
    name = f"tiltyard-{os.getuid()}-{key}"
    usual = Path(tempfile.gettempdir()) / name
    return usual if fits(usual / LONGEST_NAME) else Path("/tmp") / name  # noqa: S108 checked below


def prepare_runtime(home: Path, folder: Path) -> None:
    """Make the folder, see that it is ours alone, and record it in the data folder.

    A folder that is there already is never changed. Raises ``StackFailed`` when it is a link, lets others in or
    is too deep for a socket.
    """
    if not fits(folder / LONGEST_NAME):
        raise StackFailed(
            f"the runtime folder {folder} is too long for a socket (limit {LONGEST_FOLDER} bytes): "
            "set TILTYARD_RUNTIME to a shorter one"
        )
    try:
        _make(folder)
        problem = runtime_problem(folder)
    except OSError as error:
        problem = f"cannot be made ({error.strerror})"
    if problem:
        raise StackFailed(
            f"the runtime folder {folder} {problem}: remove it, or set TILTYARD_RUNTIME to another one"
        )
    record = StackPaths(home).runtime
    try:
        write_atomically(record, f"{folder}\n")
    except OSError as error:
        raise StackFailed(f"{record} cannot be written ({error.strerror}): remove it") from error


def _make(folder: Path) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
        folder.chmod(0o700)  # whatever the umask took away


class Runtime:
    """The runtime folder of one supervisor, held for as long as it lives.

    A supervisor that ends and a new one of the same name stand in line for it; the new one finds it empty.
    """

    def __init__(self, home: Path, folder: Path) -> None:
        self._home, self._folder, self._hold = home, folder, FolderHold(folder)

    def ready(self, within_s: float = LINE_S) -> None:
        """Have the folder, made anew if it has vanished. Raises ``StackFailed`` when another stack keeps it."""
        deadline = time.monotonic() + within_s
        while not self._hold.holds:
            prepare_runtime(self._home, self._folder)
            if self._hold.take():
                return
            if time.monotonic() > deadline:
                raise StackFailed(
                    f"another stack uses the runtime folder {self._folder}: set TILTYARD_RUNTIME apart"
                )
            time.sleep(0.05)

    def clear(self, name: str) -> None:
        """Remove a file of ours, if the folder is still ours."""
        if self._hold.holds:
            (self._folder / name).unlink(missing_ok=True)

    def leave(self) -> None:
        """Let go of the folder, and take it away where it is ours to make."""
        if self._hold.holds and self._folder == usual_folder(self._home):
            with suppress(OSError):  # somebody has put something there
                StackPaths(self._home).runtime.unlink(
                    missing_ok=True
                )  # a copy of the data folder must not use ours
                self._folder.rmdir()
        self._hold.release()


def sweep_runtime(home: Path) -> None:
    """Take away what a killed stack left in the folder that is ours to make, unless a living one has it."""
    folder = usual_folder(home)
    if not os.path.lexists(folder) or runtime_problem(folder):
        return
    hold = FolderHold(folder)
    if _taken(hold, LAST_CHILD_S):
        for name in NAMES:
            (folder / name).unlink(missing_ok=True)
        with suppress(OSError):  # somebody has put something there
            folder.rmdir()
    hold.release()


def _taken(hold: FolderHold, within_s: float) -> bool:
    """Whether it could be taken in time. A copy of a killed supervisor, made to start something, holds what that
    one held until it becomes another program, and is in nobody's list."""
    deadline = time.monotonic() + within_s
    while not hold.take():
        if time.monotonic() > deadline or not hold.folder.exists():
            return False
        time.sleep(0.02)
    return True


def runtime_problem(folder: Path) -> str:
    """What keeps the folder from being used, or nothing. Links are not followed."""
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode):
        return "is not a folder"
    if found.st_uid != os.getuid():
        return f"belongs to user {found.st_uid}, not to you"
    mode = stat.S_IMODE(found.st_mode)
    return "" if mode == stat.S_IRWXU else f"has the mode {mode:o}, not 700 as a private folder has"
