"""Logs of the stack's processes: one file each, bounded in size, read from the end."""

import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

MAX_LOG_BYTES = 16 * 1024 * 1024
TAIL_BYTES = 1024 * 1024


def rotate(log: Path, limit_bytes: int = MAX_LOG_BYTES) -> None:
    """Keep one older copy of a log that has grown past the limit. The process that appends to it goes on."""
    try:
        if log.stat().st_size <= limit_bytes:
            return
    except FileNotFoundError:
        return
    shutil.copyfile(log, log.with_suffix(".log.1"))
    os.truncate(log, 0)


def tail(log: Path, lines: int) -> list[str]:
    """The last ``lines`` of a log, looking at its last MiB; none when there is no log."""
    try:
        with log.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - TAIL_BYTES))
            found = file.read().decode(errors="replace").splitlines()
    except FileNotFoundError:
        return []
    return found[-lines:] if lines else []


def follow(logs: dict[str, Path], every_s: float = 0.2, *, from_end: bool = True) -> Iterator[tuple[str, str]]:
    """New lines of several logs as (process, line), for ever. A log that shrinks is read from its start.

    Without ``from_end`` the lines that are there already come first.
    """
    positions = {name: log.stat().st_size if from_end and log.exists() else 0 for name, log in logs.items()}
    while True:
        for name, log in logs.items():
            lines, positions[name] = _lines_since(log, positions[name])
            yield from ((name, line) for line in lines)
        time.sleep(every_s)


def _lines_since(log: Path, position: int) -> tuple[list[str], int]:
    try:
        with log.open("rb") as file:
            start = position if file.seek(0, os.SEEK_END) >= position else 0
            file.seek(start)
            data = file.read()
    except FileNotFoundError:
        return [], 0
    whole = data[: data.rfind(b"\n") + 1]
    return whole.decode(errors="replace").splitlines(), start + len(whole)
