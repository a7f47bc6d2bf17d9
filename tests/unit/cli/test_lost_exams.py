"""An ended episode whose examinations are gone: only what needs them is without them."""

import asyncio
import json
from pathlib import Path

import pytest

from ops.cli.failures import DONE, WRONG_USE
from ops.cli.main import run_program
from schemas.sandbox_facts import SandboxFacts
from tests.unit.cli.test_ran_in import archived
from workers.settings import Settings

GONE = f"sha256:{'0' * 64}"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A data folder with the episode ``e``, of which the trace is kept, and not what its tests said."""
    facts = SandboxFacts(driver="bubblewrap", incarnation=1)
    asyncio.run(archived(Settings.from_environment(tmp_path), facts, exams=GONE))
    return tmp_path


def test_the_story_is_told_without_what_its_tests_said(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_program(["--home", str(home), "episodes", "show", "e"]) == DONE
    said = capsys.readouterr()
    assert "\npoints\n" in said.out
    assert "\nturns\n" in said.out
    assert "no story" not in said.err
    assert f"what its tests said is not told: the exams {GONE} of e: " in said.err
    assert run_program(["--home", str(home), "episodes", "show", "e", "--json"]) == DONE
    story = json.loads(capsys.readouterr().out)["story"]
    assert story["turns"]
    assert story["points"]["exams"] == []


@pytest.mark.parametrize("more", [("--turn", "0"), ("--diff", "e")])
def test_what_needs_none_of_it_says_nothing(
    home: Path, more: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_program(["--home", str(home), "episodes", "show", "e", *more]) == DONE
    assert capsys.readouterr().err == ""


def test_a_pin_is_played_without_it_and_a_regrade_is_not_made(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_program(["--home", str(home), "episodes", "pin", "e"])
    assert "exams" not in capsys.readouterr().err
    assert run_program(["--home", str(home), "regrade", "e"]) == WRONG_USE
    assert f"the exams {GONE} of e: " in capsys.readouterr().err
