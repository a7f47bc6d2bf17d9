"""What a policy's name means: a shipped script, ``module:object`` or ``exec:COMMAND``."""

import re
import shlex
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tiltyard.errors import BadPolicy

__all__ = ["CheckScript", "Target", "folder", "parse", "program"]

_OBJECT = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")
_FORMS = "a shipped script's name (`tiltyard policies list`), module:object, or exec:COMMAND"

CheckScript = Callable[[str], object]
"""Raises ``BadPolicy`` for a name that is no shipped script's."""


@dataclass(frozen=True)
class Target:
    """A parsed name. ``words`` are what the runner is given: the object, or the command's words."""

    kind: Literal["script", "module", "exec"]
    words: tuple[str, ...]


def parse(name: str, check_script: CheckScript) -> Target:
    """The meaning of ``name``. Raises ``BadPolicy``.

    A shipped script's name wins over an object of the same spelling (``reference:NAME``).
    """
    if name.startswith("exec:"):
        return Target("exec", _words(name.removeprefix("exec:")))
    try:
        check_script(name)
    except BadPolicy:
        if ":" not in name:
            raise
        if not _OBJECT.fullmatch(name):
            raise BadPolicy(f"{name!r} cannot be read", field="policy", fix=f"give {_FORMS}") from None
        return Target("module", (name,))
    return Target("script", (name,))


def _words(command: str) -> tuple[str, ...]:
    try:
        words = tuple(shlex.split(command))
    except ValueError as error:
        raise BadPolicy(f"the command cannot be read: {error}", field="policy", fix="check its quotes") from None
    if not words:
        raise BadPolicy("exec: names no command", field="policy", fix="write exec:COMMAND, such as exec:./agent")
    return words


def program(words: tuple[str, ...], directory: Path, search_path: str) -> Path:
    """The command's program. Raises ``BadPolicy`` when there is none that can be run."""
    name = words[0]
    found = shutil.which(str(directory / name) if "/" in name else name, path=search_path)
    if found is None:
        where = f"relative to {directory}" if "/" in name else "on PATH"
        raise BadPolicy(
            f"{name!r} is not a program that can be run",
            field="policy",
            fix=f"it was looked for {where}; check its name and that it is executable (chmod +x)",
        )
    return Path(found)


def folder(directory: str) -> Path:
    """The directory that a child starts in, resolved. Raises ``BadPolicy``."""
    path = Path(directory).resolve()
    if not directory or not path.is_dir():
        raise BadPolicy(
            f"{directory!r} is no directory on this machine",
            field="policy.directory",
            fix="start from the directory that holds the policy",
        )
    return path
