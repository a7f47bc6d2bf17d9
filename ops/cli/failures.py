"""The one place where an error becomes a message and an exit code.

0 done · 1 done and below the asked threshold · 2 wrong use or bad input · 3 the environment failed · 130 Ctrl-C ·
141 the reader of a pipe left before all was said.
"""

import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

import click

from ops.cli.output import on_errors
from tiltyard.errors import BadInput, EnvironmentFailed, InputMissing, TiltyardError

DONE, BELOW, WRONG_USE, FAILED, INTERRUPTED, UNREAD = 0, 1, 2, 3, 130, 141
"""``UNREAD`` is what a shell says of a program that SIGPIPE ended."""


class Crashed(Exception):
    """An error that nobody expected, already written to a log."""


class Unread(Exception):
    """The reader of our output has left. Not an ``OSError``: click would end the program with its own code."""


@contextmanager
def pipes_told() -> Iterator[None]:
    """Turn a broken pipe into ``Unread``."""
    try:
        yield
    except BrokenPipeError as error:
        raise Unread from error


def report(error: BaseException) -> int:
    """Tell the user; the exit code."""
    match error:
        case click.exceptions.Exit():
            return error.exit_code
        case Unread():
            _read_by_nobody()
            return UNREAD
        case KeyboardInterrupt() | click.Abort():
            _say_what_is_left()
            return INTERRUPTED
        case click.ClickException():
            _say_click(error)
            return WRONG_USE
        case TiltyardError():
            text, code = told(error)
            _say(text)
            return code
        case Crashed():
            _say(f"error: {error}")
            return FAILED
    _say(f"error: {crash(error, None)}")
    return FAILED


def _say_what_is_left() -> None:
    """Ctrl-C ends the readers of a pipe too."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _read_by_nobody()


def _read_by_nobody() -> None:
    """Let go of the pipe, or the interpreter complains of it once more when it ends."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def told(error: TiltyardError) -> tuple[str, int]:
    """What is said of it, and its exit code."""
    match error:
        case BadInput():
            return f"error: {told_input(error)}", WRONG_USE
        case InputMissing():
            return _with_mend(f"error: {error}", error.fix), WRONG_USE
        case EnvironmentFailed():
            return _with_mend(f"error: {error}", error.fix), FAILED
    return f"error: {error}", FAILED


def told_input(error: BadInput) -> str:
    """What is wrong with what somebody gave, and how to mend it."""
    where = f"{error.field}: " if error.field else ""
    return _with_mend(f"{where}{error.message}", error.fix)


def _with_mend(told: str, fix: str) -> str:
    return told + (f"\n  to mend it: {fix}" if fix else "")


def _say_click(error: click.ClickException) -> None:
    with suppress(OSError):
        error.show()


def _say(text: str) -> None:
    with suppress(OSError):  # nobody reads standard error: the exit code must do
        print(on_errors(text), file=sys.stderr, flush=True)


def crash(error: BaseException, log: Path | None) -> Crashed:
    """Write the traceback to a log; what is left to say. Without a log that can be written, say it all."""
    told = "".join(traceback.format_exception(error))
    kind = f"{type(error).__name__}: {next(iter(str(error).splitlines()), 'no message')}"
    try:
        if log is None:
            raise FileNotFoundError("no data folder")
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("a", encoding="utf-8", errors="backslashreplace") as file:
            file.write(f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ} {' '.join(sys.argv[1:])}\n{told}\n")
    except (OSError, ValueError):
        return Crashed(f"unexpected: {kind}\n{told}")
    return Crashed(f"unexpected: {kind} (the whole story is in {log})")
