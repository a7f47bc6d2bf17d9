"""What is said while the board of a batch is up, on terminals of several widths."""

import sys
import threading
from types import SimpleNamespace
from typing import cast

import pytest

from ops.cli.minimising import Trials, progress_of
from ops.cli.output import Output
from ops.cli.progress import Board, Lines, progress
from schemas.episode import EpisodeSpec, PolicySpec
from schemas.task import Limits
from tests.unit.cli.terminal import errors_on

COMMAND = (
    "tiltyard run 'code-repair/a name with spaces/3' code-repair/repair/4 code-repair/repair/5 --policy reference"
)
SPEC = EpisodeSpec(
    episode_id="e-1", task_id="w/f/1", task_digest="", world="w", policy=PolicySpec(target="p"), limits=Limits()
)
WIDTHS = pytest.mark.parametrize("columns", [60, 80, 100])


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


def test_what_is_left_of_an_episode_that_is_shrunk_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    trials = cast(Trials, SimpleNamespace(failed={"fewer": True}, tell=None))
    said = "1 run: 3 of 4 calls and questions left"
    with progress_of(Output(as_json=False), trials, 4):
        trials.tell(1, 3)
    assert said in capsys.readouterr().err
    terminal = errors_on(monkeypatch, 80)
    with progress_of(Output(as_json=False), trials, 4):
        trials.tell(1, 3)
    monkeypatch.undo()
    assert said in terminal.said()
