"""An ended episode whose trace is gone or damaged: every command that reads it says the same."""

import asyncio
from contextlib import closing
from pathlib import Path

import pytest

from infra.stores.database import open_database
from infra.stores.objects import FolderObjects
from infra.stores.records import SqlRecords
from ops.cli.failures import WRONG_USE, report
from ops.cli.main import run_program
from schemas.episode import End, EpisodeResult, Validity
from schemas.sandbox_facts import SandboxFacts
from tests.unit.cli.test_ran_in import archived
from tiltyard.errors import InputMissing
from workers.settings import Settings


async def lost(home: Path, damage: str) -> EpisodeResult:
    """The outcome of the episode ``e``, whose trace is as ``damage`` says."""
    settings = Settings.from_environment(home)
    await archived(settings, SandboxFacts(driver="bubblewrap", incarnation=1))
    with closing(open_database(settings.records_url)) as database:
        result = await SqlRecords(database).result("e")
    assert result is not None
    file = FolderObjects(home / "objects").path(result.trace)
    file.chmod(0o600)
    if damage == "missing":
        file.unlink()
    else:
        file.write_bytes(file.read_bytes() + b"!")
    return result


READING = (
    ("episodes", "show", "e", "--turn", "0"),
    ("episodes", "show", "e", "--diff", "e"),
    ("episodes", "show", "e", "--processes"),
    ("episodes", "pin", "e"),
    ("regrade", "e"),
    ("regrade", "--all"),
)


@pytest.mark.parametrize("damage", ["missing", "tampered"])
async def test_every_command_that_reads_it_names_the_episode_and_the_object(
    damage: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = await lost(tmp_path, damage)
    for command in READING:
        code = await asyncio.to_thread(run_program, ["--home", str(tmp_path), *command])
        said = capsys.readouterr().err
        assert f"the trace {result.trace} of e: object {result.trace} " in said, command
        assert "to mend it: put the object back" in said, command
        assert code == WRONG_USE, command


async def test_one_that_left_no_facts_is_told_alike(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = EpisodeResult(
        episode_id="e",
        task="t",
        policy="p",
        seed=0,
        end=End.ENVIRONMENT_ERROR,
        validity=Validity.ENVIRONMENT,
        reason="the world was away",
    )
    settings = Settings.from_environment(tmp_path)
    await archived(settings, SandboxFacts(driver="bubblewrap", incarnation=1), result)
    for command in READING[:-1]:
        code = await asyncio.to_thread(run_program, ["--home", str(tmp_path), *command])
        said = capsys.readouterr().err
        assert "e: has no trace, for no facts could be collected: environment_error, the world was away" in said
        assert code == WRONG_USE, command


def test_what_is_missing_is_bad_input_wherever_it_comes_up(capsys: pytest.CaptureFixture[str]) -> None:
    """Of commands that need a stack too: ``fork``, ``minimise``."""
    assert report(InputMissing("the trace sha256:0 of e", "object sha256:0 is missing")) == WRONG_USE
    assert "the trace sha256:0 of e: object sha256:0 is missing" in capsys.readouterr().err
