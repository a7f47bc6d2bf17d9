"""What the kernel tells is asked until there is an answer: an error that passes is none."""

import sys
from pathlib import Path

import pytest

from infra.sandboxes.seeing import asked
from tiltyard.errors import EnvironmentFailed

SECOND_TIME = """
import os, pathlib, signal, sys
known = pathlib.Path(sys.argv[1])
if not known.exists():
    known.touch()
    os.kill(os.getpid(), signal.SIGKILL)
print("[true, false]")
"""


def program(text: str, *arguments: object) -> tuple[str, ...]:
    return (sys.executable, "-I", "-S", "-c", text, *map(str, arguments))


def test_who_was_killed_is_asked_again_and_an_answer_is_kept(tmp_path: Path) -> None:
    command = program(SECOND_TIME, known := tmp_path / "known")
    with pytest.raises(EnvironmentFailed, match="could not be found out"):
        asked(command)
    assert asked(command) == ("every_exec", "connections")
    known.unlink()
    assert asked(command) == ("every_exec", "connections")


def test_who_does_not_answer_in_time_has_not_said_that_there_is_nothing() -> None:
    with pytest.raises(EnvironmentFailed, match="could not be found out"):
        asked(program("import time; time.sleep(3600)"), limit_s=0.1)


@pytest.mark.parametrize("text", ["print('[false, false]')", "raise SystemExit('no such call')", "print('{')"])
def test_a_kernel_that_tells_nothing_is_an_answer(text: str) -> None:
    assert asked(program(text)) == ()


def test_a_program_that_is_not_there_tells_nothing() -> None:
    assert asked(("/no/such/program",)) == ()
