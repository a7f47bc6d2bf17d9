"""``tiltyard import``: its tasks are found, shown, checked and run like shipped ones."""

import json
from pathlib import Path

import pytest

from tests.e2e.cli.cli_calls import Cli
from tests.tau2_folder import CANCEL, FIND, all_kinds, task, write_folder

PREFIX = "retail/tau2"


@pytest.fixture
def source(cli: Cli) -> Path:
    return write_folder(cli.folder / "source", all_kinds())


def kept(home: Path) -> dict[str, bytes]:
    return {str(path.relative_to(home)): path.read_bytes() for path in home.rglob("*") if path.is_file()}


def test_an_import_says_what_it_made_and_what_is_wrong_with_it(cli: Cli, source: Path) -> None:
    said = cli("import", "tau2", "source", "--json").object
    assert (said["family"], said["tasks"], said["counted"]) == (PREFIX, 9, 4)
    assert [one["task"] for one in said["failing_steps"]] == [f"{PREFIX}/stumbling", f"{PREFIX}/refused"]
    assert said["failing_steps"][0]["steps"][0]["tool"] == "find_user_id_by_email"
    assert said["idle_passes"] == [
        f"{PREFIX}/{name}" for name in ("refused", "handed-over", "looked", "there-and-back")
    ]
    assert [one["task"] for one in said["unscorable"]] == [f"{PREFIX}/nothing"]
    text = cli("import", "tau2", "source").out
    for part in ("9 tasks imported", "4 count", f"{PREFIX}/nothing", "neither an action nor a fact"):
        assert part in text
    assert cli.home.stat().st_mode & 0o777 == 0o700


def test_importing_again_gives_the_same_and_another_folder_takes_its_place_whole(cli: Cli, source: Path) -> None:
    file = Path(cli("import", "tau2", "source", "--json").object["file"])
    once = kept(cli.home)
    assert len(once) == 2, "a template and a task file, and nothing left over"
    cli("import", "tau2", "source")
    assert kept(cli.home) == once
    write_folder(source, [task("only", CANCEL)])
    with file.open("rb") as reading:
        cli("import", "tau2", "source")
        assert len(json.loads(reading.read())["variants"]) == 9, "who reads the old file goes on reading it"
    assert [one["id"] for one in cli("tasks", "list", PREFIX, "--json").object["tasks"]] == [f"{PREFIX}/only"]


def test_a_bad_folder_is_2_and_changes_nothing(cli: Cli, source: Path) -> None:
    cli("import", "tau2", "source")
    before = kept(cli.home)
    write_folder(source, [task("one", FIND), task("one", FIND)])
    said = cli("import", "tau2", "source", "--json", code=2)
    assert said.out == ""
    assert "tasks.json: 1.id" in said.err
    assert kept(cli.home) == before
    assert "does not exist" in cli("import", "tau2", "nowhere", code=2).err


def test_imported_tasks_are_listed_shown_and_checked(cli: Cli, source: Path) -> None:
    shipped = cli("tasks", "list", "--json").object["tasks"]
    cli("import", "tau2", "source")
    listed = cli("tasks", "list", "--json").object["tasks"]
    assert len(listed) == len(shipped) + 9
    standings = {one["id"]: one["standing"] for one in listed}
    assert standings[f"{PREFIX}/nothing"] == "unscorable"
    assert standings[f"{PREFIX}/looked"] == "idle_passes"
    assert standings[f"{PREFIX}/changed"] == standings["replacement/reply-lost/1"] == "counted"
    assert "(unscorable)" in cli("tasks", "list", f"{PREFIX}/nothing").out
    assert "You want what changed is about" in cli("tasks", "show", f"{PREFIX}/changed").out
    file = "../home/suites/tau2"
    assert cli("tasks", "check", file, "--json").object == {"tasks": 9, "problems": [], "pins": []}


def test_a_template_that_was_taken_away_is_named(cli: Cli, source: Path) -> None:
    cli("import", "tau2", "source")
    (template,) = (cli.home / "templates").iterdir()
    template.unlink()
    said = cli("tasks", "check", "../home/suites/tau2", code=2)
    assert "template.params.digest" in said.out
    assert "tiltyard" in said.out


def test_imported_tasks_run_as_episodes(stack_cli: Cli) -> None:
    write_folder(stack_cli.folder / "source", all_kinds())
    stack_cli("import", "tau2", "source")
    names = [f"{PREFIX}/{name}" for name in ("changed", "told", "stumbling", "refused", "nothing")]
    done = stack_cli("run", *names, "--policy", "reference", "--jobs", "5", "--fail-under", "1", "--json")
    completion = {one["task"]: one["score"]["completion"] for one in done.objects}
    assert completion == {name: float(not name.endswith("nothing")) for name in names}
    assert {one["validity"] for one in done.objects} == {"valid"}
    idle = stack_cli("run", *names[:2], "--policy", "do_nothing", "--fail-under", "0.5", "--json", code=1)
    assert {one["score"]["completion"] for one in idle.objects} == {0}
