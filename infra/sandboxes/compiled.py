"""The supervisor, compiled: a sandbox with it is there in half the time."""

import subprocess
from pathlib import Path

NAME = "supervisor.pyc"

_SOURCE = Path(__file__).with_name("supervisor.py")
_COMPILE = (
    "import sys, py_compile as p; "
    "p.compile(sys.argv[1], sys.argv[2], doraise=True, invalidation_mode=p.PycInvalidationMode.UNCHECKED_HASH)"
)


def compile_supervisor(python: Path, folder: Path) -> Path:
    """Compile it with the interpreter that will run it, into a folder that is there; the new file.

    Raises ``OSError``, and ``subprocess.CalledProcessError`` when that is no interpreter for the supervisor.
    """
    compiled = folder / NAME
    command = [str(python), "-I", "-S", "-c", _COMPILE, str(_SOURCE), str(compiled)]
    subprocess.run(command, check=True, capture_output=True)
    return compiled
