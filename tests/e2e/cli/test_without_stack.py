"""Commands that need no stack start none; and what every command keeps to."""

import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from ops.cli.main import COMMANDS
from tests.e2e.cli.cli_calls import PROGRAM, Cli, Said

TASK = "replacement/reply-lost/1"
HEAVY = ("pydantic", "temporalio", "grpc", "sqlalchemy", "rich", "jinja2", "yaml")


@pytest.mark.parametrize("command", [(), *((name,) for name in COMMANDS)], ids=" ".join)
def test_help_loads_nothing_heavy(command: tuple[str, ...]) -> None:
    """Help answers at once because it imports next to nothing; that is what can be tested without a clock."""
    program = f"""
import sys
from ops.cli.main import run_program
assert run_program([*{command!r}, "--help"]) == 0
print(*(name for name in {HEAVY!r} if name in sys.modules), file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("Usage: tiltyard")
    assert done.stderr.strip() == ""


@pytest.mark.parametrize(
    "command",
    [
        ("tasks", "list"),
        ("tasks", "show", "replacement/reply-lost/1"),
        ("tasks", "check", str(Path(__file__).parents[3] / "tasks/replacement/approved.yaml")),
        ("policies", "list"),
        ("worlds", "list"),
        ("worlds", "describe", "replacement"),
        ("status",),
        ("doctor",),
        ("down",),
        ("logs",),
    ],
    ids=lambda command: " ".join(command[:3]).split(" /")[0],
)
def test_starts_nothing_and_prints_text_or_objects(cli: Cli, command: tuple[str, ...]) -> None:
    text = cli(*command)
    assert bool(text.out) is (command != ("logs",))
    assert all(isinstance(one, dict) for one in cli(*command, "--json").objects)
    assert not cli.home.exists(), "the data folder is made by the stack alone"


@pytest.mark.parametrize("command", [("worlds", "list"), ("run", TASK), ("doctor", "--home", "file")], ids=" ".join)
def test_the_program_itself_does_what_its_forks_do(cli: Cli, command: tuple[str, ...]) -> None:
    (cli.folder / "file").touch()
    with cli.start(*command) as running:
        out, err = running.communicate(timeout=150)
    assert cli(*command, code=running.returncode) == Said(running.returncode, out, err)


def test_tasks_list_gives_the_fields_that_scripts_rely_on(cli: Cli) -> None:
    tasks = cli("tasks", "list", "--json").object["tasks"]
    assert {"id", "family", "world", "needs_sandbox"} <= tasks[0].keys()
    listed = cli("tasks", "list", "replacement/reply-*", "--json").object["tasks"]
    assert {one["family"] for one in listed} == {"replacement/reply-lost"}
    assert len(listed) < len(tasks)


def test_what_is_shipped_is_checked_when_nothing_is_named(cli: Cli) -> None:
    shipped = cli("tasks", "list", "--json").object["tasks"]
    assert cli("tasks", "check", "--json").object == {"tasks": len(shipped), "problems": [], "pins": []}


def test_policies_and_worlds_name_what_is_shipped(cli: Cli) -> None:
    names = {one["name"] for one in cli("policies", "list", "--json").object["policies"]}
    assert {"reference", "reconcile", "do_nothing"} <= names
    tools = {one["name"] for one in cli("worlds", "describe", "retail", "--json").object["tools"]}
    assert {"get_receipt", "wait", "cancel_pending_order"} <= tools


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (("frobnicate",), "No such command"),
        (("statsu",), "Did you mean 'status'?"),
        (("run", "replacement/reply-lost/1"), "--policy"),
        (("run", "replacement/reply-loost/1", "--policy", "reconcile"), "did you mean replacement/reply-lost"),
        (("run", "replacement/reply-lost/1", "--policy", "reconcil"), "did you mean reconcile"),
        (("run", "replacement/reply-lost/1", "--policy", "hardcoder"), "works in a sandbox"),
        (("run", "replacement/reply-lost/1", "--policy", "exec:./absent"), "./absent"),
        (("run", "replacement/reply-lost/1", "--policy", "absent:act"), "absent"),
        (("run", "replacement/reply-lost/1", "--policy", "reconcile", "--repeat", "0"), "--repeat"),
        (("run", "replacement/reply-lost/1", "--policy", "reconcile", "--fail-under", "1.5"), "--fail-under"),
        (("run", TASK, "--policy", "reconcile", "--policy", "handoff"), "'--policy': given 2 times"),
        (
            ("run", TASK, "--policy", "reconcile", "--fail-under", "nan"),
            "'--fail-under': 'nan' is not in the range",
        ),
        (("run", TASK, "--policy", "reference:nope"), "--policy: replacement/reply-lost/1 has no reference 'nope'"),
        (("run", TASK, "--policy", "reconcile", "--seed", "abc"), "'abc' is not a valid whole number"),
        (("run", TASK, "--policy", "reconcile", "--tasks", "nowhere"), "'--tasks': Path 'nowhere' does not exist"),
        (("episodes", "answer", "e-1", ""), "'TEXT': String should have at least 1 character"),
        (("episodes", "answer", "e-1", "x" * 5000), "'TEXT': String should have at most 4096 characters"),
        (("episodes", "stop", "e-1", "--reason", "x" * 501), "'--reason': String should have at most 500"),
        (("tasks", "show", "retail/none/9"), "no task has this id"),
        (("tasks", "show", "replacement/reply-lost"), "is 4 tasks"),
        (("tasks", "check", "nowhere"), "nowhere"),
        (("worlds", "describe", "moon"), "known worlds: code-repair, replacement, retail"),
        (("logs", "kernel"), "supervisor"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_wrong_use_is_2_and_says_how_to_mend_it(cli: Cli, command: tuple[str, ...], said: str) -> None:
    answer = cli(*command, "--json", code=2)
    assert answer.out == ""
    assert said in answer.err
    assert "Traceback" not in answer.err
    assert not cli.home.exists()


def test_a_task_is_shown_with_all_that_it_is_graded_by(cli: Cli) -> None:
    text = cli("tasks", "show", TASK).out
    assert "\n\n" not in text, "the instruction has no empty line, so the YAML needs none"
    shown, whole = yaml.safe_load(text), cli("tasks", "show", TASK, "--json").object
    assert shown["instruction"] == whole["instruction"]
    assert [one["kind"] for one in shown["contracts"]] == [one["kind"] for one in whole["contracts"]]
    assert shown["contracts"][1]["at_most"] == 1
    assert shown["weights"] == whole["weights"]
    assert shown["limits"].items() <= whole["limits"].items()
    assert shown["limits"]["turns"] == 40


def test_own_tasks_are_listed_and_shown_and_checked_before_they_are_run(cli: Cli) -> None:
    task = cli("tasks", "show", TASK, "--json").object
    place = cli.folder / "own" / "replacement" / "mine.yaml"
    place.parent.mkdir(parents=True)
    fields = {key: value for key, value in task.items() if key != "id"} | {"family": "mine", "variants": {"1": {}}}
    place.write_text(json.dumps(fields))
    for given in ("own", "own/replacement", "own/replacement/mine.yaml"):
        (listed,) = cli("tasks", "list", "--tasks", given, "--json").object["tasks"]
        assert listed["id"] == "replacement/mine/1"
    assert cli("tasks", "show", "replacement/mine/1", "--tasks", "own", "--json").object == {
        **task,
        "id": "replacement/mine/1",
    }
    place.write_text(json.dumps(fields | {"polling_tools": ["get_tickets"]}))
    refused = cli("run", "replacement", "--tasks", "own", "--policy", "reference", code=2)
    assert "replacement/mine/1: polling_tools.0: the world has no tool 'get_tickets'" in refused.err
    assert not cli.home.exists()


def test_a_bad_task_file_is_told_by_field_and_fix(cli: Cli) -> None:
    place = cli.folder / "replacement" / "odd.yaml"
    place.parent.mkdir()
    shown = cli("tasks", "show", "replacement/approved/1", "--json").object
    task = {key: value for key, value in shown.items() if key != "id"}
    place.write_text(json.dumps({**task, "family": "odd", "instrction": "a slip", "variants": {"1": {}}}))
    answer = cli("tasks", "check", str(cli.folder), "--json", code=2)
    (problem, *_) = answer.object["problems"]
    assert "instrction" in problem["field"]
    assert "instruction" in problem["fix"]
    assert answer.object["tasks"] == 1, "a bad one is one too"
    said = cli("tasks", "check", str(cli.folder), code=2).out.splitlines()[-1]
    assert said.startswith("1 task, ")


def test_a_data_folder_that_cannot_be_used_is_a_failed_environment(cli: Cli) -> None:
    cli.home.write_text("a file is in the way")
    answer = cli("up", code=3)
    assert "choose another one with --home" in answer.err
    report = cli("doctor", "--json", code=3).object
    (problem,) = [one for one in report["checks"] if not one["ok"]]
    assert problem["name"] == "data folder"
    assert "--home" in problem["fix"]


def test_the_doctor_notices_a_runtime_folder_of_somebody_else(cli: Cli, tmp_path: Path) -> None:
    link = tmp_path / "runtime"
    link.symlink_to(tmp_path)
    made = subprocess.run(
        [sys.executable, "-m", "ops.cli.main", "doctor", "--json"],
        env={**cli.environment, "TILTYARD_RUNTIME": str(link)},
        capture_output=True,
        text=True,
    )
    assert made.returncode == 3
    (problem,) = [one for one in json.loads(made.stdout)["checks"] if not one["ok"]]
    assert problem["name"] == "runtime folder"


def test_the_doctor_notices_a_damaged_database(cli: Cli) -> None:
    cli.home.mkdir()
    (cli.home / "worlds.db").write_bytes(b"SQLite format 3\0" + b"nonsense" * 1000)
    (problem, *_) = [one for one in cli("doctor", "--json", code=3).object["checks"] if not one["ok"]]
    assert problem["name"] == "databases"
    assert "worlds.db" in problem["detail"]


def test_the_doctor_notices_a_database_of_a_newer_version(cli: Cli) -> None:
    cli.home.mkdir()
    with closing(sqlite3.connect(cli.home / "records.db")) as database:
        database.execute("CREATE TABLE alembic_version (version_num TEXT)")
        database.execute("INSERT INTO alembic_version VALUES ('9999')")
        database.commit()
    (problem,) = [one for one in cli("doctor", "--json", code=3).object["checks"] if not one["ok"]]
    assert "newer version of Tiltyard (revision 9999)" in problem["detail"]


def test_an_unforeseen_error_is_one_line_and_a_log(cli: Cli) -> None:
    """A folder where a log should be is an error that no command foresees."""
    (cli.home / "logs" / "worker.log").mkdir(parents=True)
    answer = cli("logs", code=3)
    assert "unexpected: IsADirectoryError" in answer.err
    assert len(answer.err.splitlines()) == 1
    assert "Traceback" in (cli.home / "logs" / "command.log").read_text()


@pytest.mark.parametrize(
    "command", [("tasks", "list"), ("tasks", "list", "--json"), ("policies", "list"), ("--help",)]
)
def test_a_reader_that_has_left_is_141_and_no_word(cli: Cli, command: tuple[str, ...]) -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    done = subprocess.run([PROGRAM, *command], env=cli.environment, stdout=write_end, stderr=subprocess.PIPE)
    os.close(write_end)
    assert (done.returncode, done.stderr) == (141, b"")


def test_nobody_reads_the_message(cli: Cli) -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    for command, code in ((("tasks", "show", "nothing"), 2), (("frobnicate",), 2)):
        assert subprocess.run([PROGRAM, *command], env=cli.environment, stderr=write_end).returncode == code
    os.close(write_end)


def test_settings_out_of_range_are_wrong_use_of_every_command(cli: Cli) -> None:
    wrong = replace(cli, settings=(("TILTYARD_JANITOR_S", "1e300"),))
    for command in (("status",), ("doctor",), ("up",), ("logs",)):
        assert "error: TILTYARD_JANITOR_S: '1e300' is not a number" in wrong(*command, code=2).err


def test_an_empty_name_is_no_data_folder(cli: Cli) -> None:
    said = cli("--home", "", "status", code=2)
    assert "'--home': the name is empty" in said.err


def test_the_data_folder_may_be_named_after_the_command_and_wins(cli: Cli) -> None:
    other = cli.folder / "other"
    assert cli("status", "--home", str(other), "--json").object["home"] == str(other)
    assert cli("--home", str(cli.home), "status", "--json", "--home", str(other)).object["home"] == str(other)
    assert "'--home': the name is empty" in cli("logs", "--home", "", code=2).err


@pytest.mark.skipif(os.getuid() == 0, reason="no folder is closed to root")
def test_a_data_folder_that_is_closed_to_us_is_told_by_every_command(cli: Cli) -> None:
    cli.home.mkdir(mode=0)
    for command in ("status", "down", "logs", "up"):
        said = cli(command, code=3).err
        assert "choose another one with --home" in said
        assert "Traceback" not in said
    assert "choose another data folder" in cli("doctor", code=3).out


def test_every_list_of_tools_counts_the_same(cli: Cli) -> None:
    for world in cli("worlds", "list", "--json").object["worlds"]:
        assert world["tools"] == len(cli("worlds", "describe", world["name"], "--json").object["tools"])


def test_version(cli: Cli) -> None:
    assert cli("--version").out.startswith("tiltyard, version ")
