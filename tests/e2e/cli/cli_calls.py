"""Calling the command line as a user does: a process, its two streams and its exit code.

Most calls are forks of a process that has imported the program; ``start`` starts the program itself.
"""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.e2e.cli.forks import call

PROGRAM = Path(sys.executable).parent / "tiltyard"


@dataclass(frozen=True)
class Said:
    """What a command left."""

    code: int
    out: str
    err: str

    @property
    def objects(self) -> list[Any]:
        """Standard output, which must be JSON lines and nothing else."""
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def object(self) -> Any:
        (only,) = self.objects
        return only


@dataclass(frozen=True)
class Cli:
    """The program on one data folder, called from one folder."""

    home: Path
    folder: Path
    settings: tuple[tuple[str, str], ...] = ()

    def __call__(self, *arguments: str, code: int | None = 0) -> Said:
        """Run a command; ``code`` is the exit code that it must end with (``None``: any)."""
        said = Said(*call([str(PROGRAM), *arguments], self.folder, self.environment, timeout_s=150))
        assert code is None or said.code == code, f"{arguments}: {said}"
        return said

    def start(self, *arguments: str) -> "subprocess.Popen[str]":
        """A command that goes on while the test acts; the test ends it."""
        return subprocess.Popen(
            [str(PROGRAM), *arguments],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    @property
    def environment(self) -> dict[str, str]:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("TILTYARD_")}
        return {**inherited, "TILTYARD_HOME": str(self.home), **dict(self.settings)}
