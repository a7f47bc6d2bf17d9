"""The one place where an error becomes a message and an exit code.

0 done · 1 done and below the asked threshold · 2 wrong use or bad input · 3 the environment failed · 130 Ctrl-C.
"""

import os
import sys
import traceback
from datetime import UTC, datetime
from pathlib import Path

import click

from tiltyard.errors import BadInput, TiltyardError

DONE, BELOW, WRONG_USE, FAILED, INTERRUPTED = 0, 1, 2, 3, 130


class Crashed(Exception):
    """An error that nobody expected, already written to a log."""


def report(error: BaseException) -> int:
    """Tell the user; the exit code."""
    match error:
        case click.exceptions.Exit():
            return error.exit_code
        case BrokenPipeError():  # the reader of a pipe has seen enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return DONE
        case KeyboardInterrupt() | click.Abort():
            return INTERRUPTED
        case click.ClickException():
            error.show()
            return WRONG_USE
        case BadInput():
            _say(_told(error))
            return WRONG_USE
        case TiltyardError() | Crashed():
            _say(f"error: {error}")
            return FAILED
    raise error


def _told(error: BadInput) -> str:
    where = f"{error.field}: " if error.field else ""
    return f"error: {where}{error.message}" + (f"\n  to mend it: {error.fix}" if error.fix else "")


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def crash(error: Exception, log: Path | None) -> Crashed:
    """Write the traceback to a log; what is left to say. Without a log that can be written, say it all."""
    told = "".join(traceback.format_exception(error))
    kind = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else 'no message'}"
    try:
        if log is None:
            raise FileNotFoundError("no data folder")
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("a") as file:
            file.write(f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ} {' '.join(sys.argv[1:])}\n{told}\n")
    except OSError:
        return Crashed(f"unexpected: {kind}\n{told}")
    return Crashed(f"unexpected: {kind} (the whole story is in {log})")
