"""A terminal in the place of one of the two streams."""

import fcntl
import os
import pty
import struct
import sys
import termios
import threading

import pytest


class Terminal:
    """A terminal of so many columns, and all that was written to it."""

    def __init__(self, columns: int) -> None:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        self.file = os.fdopen(theirs, "w", encoding="utf-8")
        self._read: list[bytes] = []
        self._reader = threading.Thread(target=self._drain, daemon=True)
        self._reader.start()

    def _drain(self) -> None:
        try:
            while data := os.read(self._ours, 2**16):
                self._read.append(data)
        except OSError:  # the other side is closed
            os.close(self._ours)

    def said(self) -> str:
        """All of it, when whoever writes has ended."""
        self.file.close()
        self._reader.join(10)
        return b"".join(self._read).decode()


def errors_on(monkeypatch: pytest.MonkeyPatch, columns: int) -> Terminal:
    """Standard error is a terminal."""
    return _in_place_of("stderr", monkeypatch, columns)


def answers_on(monkeypatch: pytest.MonkeyPatch, columns: int) -> Terminal:
    """Standard output is a terminal."""
    return _in_place_of("stdout", monkeypatch, columns)


def _in_place_of(stream: str, monkeypatch: pytest.MonkeyPatch, columns: int) -> Terminal:
    terminal = Terminal(columns)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setattr(sys, stream, terminal.file)
    return terminal
