"""What is said to a person: every error has a code, and no text steers the terminal."""

import asyncio
import sys
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ops.cli.failures import FAILED, WRONG_USE, crash, report
from ops.cli.main import locked_out
from ops.cli.output import Output
from ops.cli.visible import visible, visible_cell
from tiltyard.errors import BadInput, ObjectsUnreachable, StackFailed

NASTY = "a\x00b\x1b[2Jc\x1b]0;title\x07d\x9be\rf\u202eg\ud800h\x7f"


@pytest.mark.parametrize("error", [RuntimeError("odd"), asyncio.CancelledError(), SystemExit(1), MemoryError()])
def test_an_error_that_nobody_expected_ends_with_3(
    error: BaseException, capsys: pytest.CaptureFixture[str]
) -> None:
    assert report(error) == FAILED
    assert f"unexpected: {type(error).__name__}" in capsys.readouterr().err


def test_what_failed_around_it_is_told_with_the_next_step(capsys: pytest.CaptureFixture[str]) -> None:
    assert report(ObjectsUnreachable("it is away", fix="start it")) == FAILED
    assert capsys.readouterr().err == "error: it is away\n  to mend it: start it\n"
    assert report(StackFailed("it died")) == FAILED
    assert capsys.readouterr().err == "error: it died\n"


def test_a_crash_is_told_also_when_its_log_cannot_be_written(tmp_path: Path) -> None:
    for log in (None, tmp_path, tmp_path / "\0"):
        assert "ValueError: half a character" in str(crash(ValueError("half a character \ud800"), log))
    log = tmp_path / "logs" / "command.log"
    assert str(log) in str(crash(ValueError("half a character \ud800"), log))
    assert "half a character" in log.read_text()
    assert "no message" in str(crash(ValueError(""), None))


def test_only_a_closed_data_folder_is_told_as_one(tmp_path: Path) -> None:
    closed = PermissionError(13, "Permission denied", str(tmp_path / "stack" / "state.json"))
    told = locked_out(closed, tmp_path)
    assert f"the data folder {tmp_path} cannot be used" in str(told)
    assert "--home" in str(told)
    for other in (PermissionError(13, "Permission denied", "/elsewhere"), PermissionError(), FileNotFoundError()):
        assert locked_out(other, tmp_path) is None


def test_an_error_message_does_not_steer_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert report(BadInput(NASTY, field=NASTY, fix="mend\nit")) == WRONG_USE
    said = capsys.readouterr().err
    assert not steering(said)
    assert "mend\nit" in said


def test_nothing_that_is_shown_steers_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    out = Output(as_json=False)
    out.show(NASTY)
    out.note(NASTY)
    out.table(("ONE", "TWO"), [("first\nsecond", NASTY)])
    said = capsys.readouterr()
    assert not steering(said.out + said.err)
    assert "\\x1b[2J" in said.out
    assert "first\\nsecond" in said.out


def test_json_is_left_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    Output(as_json=True).value({"text": "\x1b\x9b\u202e"})
    assert capsys.readouterr().out == '{"text":"\\u001b\x9b\u202e"}\n'


def steering(text: str) -> set[str]:
    odd = {one for one in text if unicodedata.category(one) in ("Cc", "Cs") or one == "\u202e"}
    return odd - {"\n", "\t"}


@given(st.text(st.characters(), max_size=30))
def test_any_text_becomes_harmless_and_stays_so(text: str) -> None:
    assert not steering(visible(text))
    assert visible(visible(text)) == visible(text)
    assert "\n" not in visible_cell(text)
    visible(text).encode(sys.stdout.encoding)
