"""Which Python a sandbox has, and where it is seen in there.

Its supervisor needs one, and so do most tasks. It is the one that runs this, by its base prefix, or else the
machine's own.
"""

import os
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

INSIDE = Path("/opt/python")
"""Where an interpreter from outside of ``/usr`` is seen."""

SHOWN = Path("/usr")
"""The folder of the machine that every sandbox sees."""


class Interpreter(NamedTuple):
    """A Python with the folder that it is installed in.

    ``hidden`` are its folders of installed packages: a sandbox has the standard library alone, so that it is the
    same everywhere, and nothing that is installed beside Tiltyard, or Tiltyard itself, is readable in it.
    """

    prefix: Path
    hidden: tuple[Path, ...] = ()

    @property
    def is_shown(self) -> bool:
        """Whether it is there without further ado."""
        return self.prefix.is_relative_to(SHOWN)

    @property
    def inside(self) -> Path:
        """The folder that it is installed in, as the sandbox sees it."""
        return self.prefix if self.is_shown else INSIDE

    @property
    def program(self) -> Path:
        """The interpreter, as the sandbox sees it."""
        return self.inside / "bin" / "python3"

    @property
    def search_path(self) -> str:
        """``PATH`` in the sandbox: ``python3`` is this one."""
        return ":".join(dict.fromkeys((f"{self.inside}/bin", "/usr/bin", "/bin")))


def interpreters() -> Iterator[Interpreter]:
    """Those to try, the best first."""
    ours = Path(os.path.realpath(sys.base_prefix))
    for prefix in dict.fromkeys((ours, SHOWN)):
        if (prefix / "bin" / "python3").exists():
            yield Interpreter(prefix, _packages(prefix) if prefix == ours else ())


def _packages(prefix: Path) -> tuple[Path, ...]:
    """Where packages are installed for the Python that runs this, outside of virtual environments."""
    at = sysconfig.get_paths(vars={"base": str(prefix), "platbase": str(prefix)})
    return tuple(dict.fromkeys(Path(at[name]) for name in ("purelib", "platlib") if Path(at[name]).is_dir()))
