"""The supervisor as it is put into a sandbox: one file. Compiled, a sandbox with it is there in half the time."""

import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

from infra.sandboxes.joined import joined

SOURCE_NAME, NAME = "supervisor.py", "supervisor.pyc"

PLACE = Path("/opt/supervisor")
"""Its folder in a sandbox. Its errors name it there, where commands cannot put anything in its stead."""

COMPILE = (
    "import sys, py_compile as p; source, compiled, named = sys.argv[1:]; "
    "p.compile(source, compiled, named, doraise=True, invalidation_mode=p.PycInvalidationMode.UNCHECKED_HASH)"
)


class NotCompiled(subprocess.SubprocessError):
    """A Python is none for the supervisor. It says which one, and why in its words."""


def write_supervisor(folder: Path) -> Path:
    """Write its source into a folder that is there; the new file, which any Python from 3.9 on runs.

    Raises ``OSError``, and ``NotJoinable`` where its modules are no one file.
    """
    source = folder / SOURCE_NAME
    source.write_text(joined())
    return source


def compile_supervisor(python: Path, folder: Path) -> Path:
    """Compile it with the interpreter that will run it, into a folder that is there; the new file.

    Raises as ``write_supervisor``, and ``NotCompiled``.
    """
    compiled = folder / NAME
    with TemporaryDirectory() as passing:
        paths = (write_supervisor(Path(passing)), compiled, PLACE / SOURCE_NAME)
        command = [str(python), "-I", "-S", "-c", COMPILE, *map(str, paths)]
        ended = subprocess.run(command, capture_output=True, text=True, errors="replace")
    if ended.returncode:
        said = ended.stderr.strip().splitlines()[-1:] or [f"it ended with {ended.returncode}"]
        raise NotCompiled(f"{python} did not compile the supervisor: {said[0]}")
    return compiled
