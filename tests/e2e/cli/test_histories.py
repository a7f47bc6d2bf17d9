"""``tiltyard histories``: a change that cannot go on with what there is, is found before it is deployed."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from infra.local.paths import StackPaths
from infra.local.state import read_state
from tests.e2e.cli.cli_calls import Cli
from workers.builds import build_id

ROOT = Path(__file__).resolve().parents[3]
SAVED = ROOT / "tests/replay/histories"
PACKAGES = ("schemas", "tiltyard", "activities", "workflows", "infra", "workers", "ops")
SOME = ("submitted", "terminated", "continued_as_new", "janitor_reclaims.pass")
TASK = "replacement/reply-lost/1"


@pytest.fixture
def some(tmp_path: Path) -> Path:
    """A few saved histories."""
    folder = tmp_path / "some"
    folder.mkdir()
    for name in SOME:
        shutil.copy(SAVED / f"{name}.json", folder)
    return folder


def test_this_code_can_go_on_with_saved_histories(cli: Cli, some: Path) -> None:
    said = cli("histories", "check", "--from", str(some), "--json").object
    assert said["checked"] == {"Episode": {"closed": 3, "running": 0}, "Janitor": {"closed": 1, "running": 0}}
    assert said["failed"] == []
    assert not cli.home.exists()


def test_a_history_that_was_cut_off_is_one_of_a_running_workflow(cli: Cli, some: Path) -> None:
    document = json.loads((some / "submitted.json").read_text())
    document["history"]["events"] = document["history"]["events"][:7]
    (some / "submitted.json").write_text(json.dumps(document))
    said = cli("histories", "check", "--from", str(some), "--json").object
    assert said["checked"]["Episode"] == {"closed": 2, "running": 1}


def test_what_is_no_history_is_named(cli: Cli, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    assert "holds no *.json" in cli("histories", "check", "--from", str(empty), code=2).err
    (empty / "other.json").write_text("[]")
    assert "other.json is no exported history" in cli("histories", "check", "--from", str(empty), code=2).err


def test_without_a_stack_nothing_is_started(cli: Cli) -> None:
    refused = cli("histories", "check", code=2).err
    assert "it has kept nothing" in refused
    assert "nothing was replayed" in refused
    assert not cli.home.exists()


def test_that_there_is_nothing_to_replay_may_be_expected(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for which in ([], ["--from", str(tmp_path / "empty")]):
        told = cli("histories", "check", *which, "--allow-none")
        assert "nothing was replayed: whether this code can go on is not known" in told.out
        assert "can go on\n" not in told.out


def test_a_server_that_does_not_answer_is_told(cli: Cli) -> None:
    away = Cli(cli.home, cli.folder, (("TILTYARD_TEMPORAL_ADDRESS", "127.0.0.1:1"),))
    assert "no Temporal server answers at 127.0.0.1:1" in away("histories", "check", code=3).err


@dataclass(frozen=True)
class Change:
    """One of the code: what is put in the place of what, in which file; and what the replay then says."""

    file: str
    old: str
    new: str
    says: str = ""


RUN = "        failure: BaseException | None = None\n"

CARELESS = {
    "a step first": Change(
        "workflows/episode.py", RUN, f"        await workflow.sleep(1)\n{RUN}", "Timer machine does not handle"
    ),
    "a field that old ones lack": Change(
        "schemas/start.py",
        "    slice_no: int\n    turns: int\n",
        "    slice_no: int\n    turns: int\n    naps: int\n",
        "Field required",
    ),
}

CAREFUL = (
    Change(
        "workflows/episode.py",
        RUN,
        f'        if workflow.patched("a nap"):\n            await workflow.sleep(1)\n{RUN}',
    ),
    Change(
        "schemas/start.py",
        "    slice_no: int\n    turns: int\n",
        "    slice_no: int\n    turns: int\n    naps: int = 0\n",
    ),
)


def checked_with(changes: Sequence[Change], histories: Path, folder: Path) -> tuple[int, dict[str, Any]]:
    """Exit code and answer of the command in a copy of the project with these changes."""
    for package in PACKAGES:
        shutil.copytree(ROOT / package, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
    for change in changes:
        changed = folder / change.file
        assert changed.read_text().count(change.old) == 1, "what is to be changed is not there any more"
        changed.write_text(changed.read_text().replace(change.old, change.new))
    done = subprocess.run(
        [sys.executable, "-P", "-m", "ops.cli.main", "histories", "check", "--from", str(histories), "--json"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder), "TILTYARD_HOME": str(folder / "home")},
        capture_output=True,
        text=True,
        timeout=150,
    )
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


@pytest.mark.parametrize("name", CARELESS)
def test_a_careless_change_is_caught(some: Path, tmp_path: Path, name: str) -> None:
    code, said = checked_with([CARELESS[name]], some, tmp_path / "copy")
    assert code == 1
    failed = {one["workflow_id"].partition("/")[0]: one["why"] for one in said["failed"]}
    assert CARELESS[name].says in failed["episode"], failed


def test_careful_changes_pass_and_have_a_version_of_their_own(some: Path, tmp_path: Path) -> None:
    code, said = checked_with(CAREFUL, some, tmp_path / "copy")
    assert (code, said["failed"]) == (0, [])
    assert said["version"] != build_id()


def _stack(cli: Cli) -> Callable[[], object]:
    paths = StackPaths(cli.home)

    def supervisor() -> object:
        state = read_state(paths.state)
        return state.supervisor if state and state.running else None

    return supervisor


def test_a_stack_is_asked_as_it_is_running_or_not(stack_cli: Cli, tmp_path: Path) -> None:
    episode = stack_cli("run", TASK, "--policy", "reconcile", "--json").object["episode_id"]
    supervisor = _stack(stack_cli)
    before = supervisor()
    said = stack_cli("histories", "check", "--limit", "3", "--json").object
    assert said["failed"] == []
    assert said["checked"]["Episode"]["closed"] >= 1
    assert supervisor() == before is not None
    elsewhere = Cli(stack_cli.home, stack_cli.folder, (*stack_cli.settings, ("TILTYARD_TASK_QUEUE", "mistyped")))
    refused = elsewhere("histories", "check", code=2).err
    assert "'mistyped'" in refused
    assert "TILTYARD_TASK_QUEUE" in refused
    stack_cli("down")
    folder = tmp_path / "kept"
    told = stack_cli("histories", "export", str(folder), "--limit", "3", "--json")
    assert "reading a copy" in told.err
    assert supervisor() is None
    names = [path.name for path in folder.glob("*.json")]
    assert told.object == {"folder": str(folder), "written": len(names)}
    assert any(name.startswith(f"episode.{episode}.") for name in names)
