"""The program as it was called, so that every command that is printed can be typed as it stands."""

import re
import shlex
import shutil
import sys
from contextvars import ContextVar
from pathlib import Path

NAME = "tiltyard"

_HOME: ContextVar[Path | None] = ContextVar("home", default=None)


def call_on(home: Path | None) -> None:
    """From now on commands name this data folder; with ``None`` they name none, as the caller did."""
    _HOME.set(home)


def command_line(*words: str) -> str:
    """A command of this program on this data folder, quoted for a shell."""
    home = _HOME.get()
    place = () if home is None else ("--home", str(home))
    return shlex.join((_program(), *place, *words))


def typeable(text: str) -> str:
    """A message of a layer that cannot know how it was called, and so writes commands as `tiltyard …`."""
    return text.replace(f"`{NAME} ", f"`{command_line()} ")


def commands() -> re.Pattern[str]:
    """Finds commands of this program: in backquotes, or after a colon or nothing and then to the line's end."""
    program = f"(?:{re.escape(shlex.quote(_program()))}|{NAME})"
    return re.compile(f"(`{program} [^`]*`|(?:^|(?<=: )){program} .*$)")


def _program() -> str:
    called = Path(sys.argv[0])
    if called.name != NAME:  # python -m
        called = Path(sys.executable).with_name(NAME)
        if not called.exists():
            return NAME
    found = shutil.which(NAME)
    return NAME if found and Path(found).resolve() == called.resolve() else str(called)
