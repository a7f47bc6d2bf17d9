"""What ``tasks check`` tells of pins: which hold, which do not, and which cannot be used at all."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from ops.cli.failures import BELOW, DONE, WRONG_USE
from ops.cli.main import run_program
from schemas.pin import Pin
from tests.unit.reopen.pins import LOST, pinned
from tiltyard.reopen.pin_files import write_pin
from tiltyard.reopen.pinning import fields_of, seals


@pytest.fixture(scope="module")
def twice() -> Pin:
    """The duplicate: its state, receipts, answer and process fail."""
    return pinned(LOST, "new_id_retry")


def expecting(pin: Pin, **fields: Any) -> Pin:
    """The pin as if it had come to something else."""
    other = pin.model_copy(update={"expect": pin.expect.model_copy(update=fields)})
    return other.model_copy(update={"sealed": seals(fields_of(other))})


def check(home: Path, place: Path) -> int:
    return run_program(["--home", str(home), "tasks", "check", str(place)])


def test_a_pin_that_was_edited_was_not_played_and_its_command_can_be_typed(
    twice: Pin, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "pinned" / "ordered twice.yaml"
    write_pin(file, twice)
    file.write_text(file.read_text().replace(f"seed: {twice.seed}", f"seed: {twice.seed + 1}", 1))
    assert check(tmp_path / "home", file) == WRONG_USE
    said = capsys.readouterr().out
    assert "0 tasks, 0 problems, 1 pin (1 cannot be used)" in said
    command = re.search(r"`([^`]* --pin-again)`", said)
    assert command, said
    assert run_program(shlex.split(command[1])[1:]) == DONE
    assert check(tmp_path / "home", file) == DONE


def test_pins_that_cannot_be_used_are_counted_apart_from_those_that_no_longer_hold(
    twice: Pin, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "pinned"
    write_pin(folder / "other.yaml", expecting(twice, score=0.5))
    assert check(tmp_path / "home", folder) == BELOW
    assert "0 tasks, 0 problems, 1 pin (1 no longer holds)" in capsys.readouterr().out
    write_pin(folder / "another.yaml", expecting(twice, score=0.6))
    (folder / "broken.yaml").write_text("null")
    assert check(tmp_path / "home", folder) == WRONG_USE
    assert "0 tasks, 0 problems, 3 pins (2 no longer hold, 1 cannot be used)" in capsys.readouterr().out
