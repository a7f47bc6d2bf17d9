"""What is said while the board of a batch is up, on terminals of several widths."""

import fcntl
import os
import pty
import struct
import sys
import termios
import threading

import pytest

from ops.cli.output import Output
from ops.cli.progress import Board, Lines, progress
from schemas.episode import EpisodeSpec, PolicySpec
from schemas.task import Limits

COMMAND = (
    "tiltyard run 'code-repair/a name with spaces/3' code-repair/repair/4 code-repair/repair/5 --policy reference"
)
SPEC = EpisodeSpec(
    episode_id="e-1", task_id="w/f/1", task_digest="", world="w", policy=PolicySpec(target="p"), limits=Limits()
)
WIDTHS = pytest.mark.parametrize("columns", [60, 80, 100])


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
    terminal = Terminal(columns)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", terminal.file)
    return terminal


@WIDTHS
def test_a_command_that_is_said_while_the_board_is_up_is_one_line(
    columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, terminal = Output(as_json=False), errors_on(monkeypatch, columns)
    with progress(out, 5) as shown:
        shown.started(SPEC)
        out.note(f"2 of 5 trials were not started; to run them:\n{COMMAND}")
        aside = threading.Thread(target=out.note, args=(f"from a thread: {COMMAND}",))
        aside.start()
        aside.join(10)
    out.note(f"after it: {COMMAND}")
    monkeypatch.undo()
    said = terminal.said()
    assert said.count(COMMAND) == 3, said
    assert "0 of 5 done, 1 running" in said, "the board was there"


@WIDTHS
def test_answers_go_to_standard_output_while_the_board_is_up(
    columns: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out, terminal = Output(as_json=True), errors_on(monkeypatch, columns)
    with progress(out, 5) as shown:
        assert isinstance(shown, Board)
        out.value({"episode_id": "e-1"})
    monkeypatch.undo()
    assert "episode_id" not in terminal.said()
    assert capsys.readouterr().out == '{"episode_id":"e-1"}\n'


def test_answers_on_the_same_terminal_have_no_board_between_them(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = errors_on(monkeypatch, 80)
    monkeypatch.setattr(sys, "stdout", terminal.file)
    with progress(Output(as_json=True), 1) as shown:
        assert isinstance(shown, Lines)
    monkeypatch.undo()
    terminal.said()
