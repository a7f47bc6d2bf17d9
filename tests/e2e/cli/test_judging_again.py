"""Regrade, pin and minimise, as a user does it: on a stack for the episodes, and without one for the rest."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.cli.cli_calls import Cli

TASK = "replacement/reply-lost/1"


@pytest.fixture(scope="module")
def twice(stack_cli: Cli) -> dict[str, Any]:
    """A recorded failure: the duplicate. The stack is down again."""
    result: dict[str, Any] = stack_cli("run", TASK, "--policy", "new_id_retry", "--json").object
    stack_cli("down")
    return result


def test_an_edited_task_file_moves_what_it_grades_otherwise(
    stack_cli: Cli, twice: dict[str, Any], tmp_path: Path
) -> None:
    task = stack_cli("tasks", "show", TASK, "--json").object
    fields = {key: value for key, value in task.items() if key != "id"} | {"family": "reply-lost"}
    fields["weights"] = {"completion": 0.5, "process": 0.3, "efficiency": 0.2}
    place = tmp_path / "replacement" / "reply-lost.json"
    place.parent.mkdir()
    place.write_text(json.dumps({**fields, "variants": {"1": {}}}))
    episode = twice["episode_id"]
    found = stack_cli("regrade", episode, "--tasks", str(tmp_path), "--fail-on-change", "--json", code=1).object
    assert [(one["part"], one["name"]) for one in found["moved"]] == [("score", "total"), ("weights", "weights")]
    assert (found["before"]["weights"], found["after"]["weights"]) == (task["weights"], fields["weights"])
    text = stack_cli("regrade", episode, "--tasks", str(tmp_path)).out
    assert f"score total: {found['before']['score']['total']:.6g} → {found['after']['score']['total']:.6g}" in text
    assert "weights: C 0.55, P 0.25, E 0.2 → C 0.5, P 0.3, E 0.2" in text
    assert stack_cli("regrade", episode, "--current-task", "--json").object["equal"] is True
    assert stack_cli("episodes", "show", episode, "--json").object["score"] == twice["score"]


def objects_of(cli: Cli, name: str) -> Path:
    digits = name.removeprefix("sha256:")
    return cli.home / "objects" / digits[:2] / digits[2:4] / digits


def test_an_episode_is_graded_again_without_a_stack(stack_cli: Cli, twice: dict[str, Any]) -> None:
    said = stack_cli("regrade", twice["episode_id"], "--json", "--fail-on-change")
    found = said.object
    assert (found["equal"], found["moved"], found["untold"]) == (True, [], [])
    assert found["before"] == found["after"]
    assert found["before"]["score"] == twice["score"]
    assert found["before"]["graders"] == twice["digests"]["graders"]
    assert "starting the stack" not in said.err
    text = stack_cli("regrade", "--all").out
    assert "nothing moved" in text
    assert f"graders {twice['digests']['graders'][:19]}…, the same now" in text


def test_episodes_are_named_by_globs_of_ids_and_tasks(stack_cli: Cli, twice: dict[str, Any]) -> None:
    for name in ("e-*", "replacement/*", "replacement/reply-lost/1"):
        assert stack_cli("regrade", name, "--json").object["episode_id"] == twice["episode_id"]
    for wrong in (("e-nobody",), ("retail/*",), (), ("e-*", "--all")):
        said = stack_cli("regrade", *wrong, "--json", code=2)
        assert said.out == ""
        assert "to mend it" in said.err


def test_a_trace_that_is_missing_or_changed_is_named(stack_cli: Cli, twice: dict[str, Any]) -> None:
    file = objects_of(stack_cli, twice["trace"])
    kept = file.read_bytes()
    try:
        file.chmod(0o600)
        file.write_bytes(kept + b"!")
        changed = stack_cli("regrade", twice["episode_id"], code=2)
        file.unlink()
        missing = stack_cli("regrade", "--all", code=2)
    finally:
        file.write_bytes(kept)
    for said in (changed.err, missing.err):
        assert f"the trace {twice['trace']} of {twice['episode_id']}: object {twice['trace']}" in said


@pytest.fixture
def pinned(stack_cli: Cli, twice: dict[str, Any], tmp_path: Path) -> Path:
    made = stack_cli("episodes", "pin", twice["episode_id"], "--to", str(tmp_path / "suite"), "--json").object
    return Path(made["file"])


def test_a_pin_is_checked_from_then_on(stack_cli: Cli, twice: dict[str, Any], pinned: Path) -> None:
    assert pinned.parent.name == "pinned"
    for place in (pinned, pinned.parent, pinned.parents[1]):
        (found,) = stack_cli("tasks", "check", str(place), "--json").object["pins"]
        assert (found["holds"], found["task"]) == (True, TASK)
    assert "1 pin" in stack_cli("tasks", "check", str(pinned)).out
    again = stack_cli("episodes", "pin", twice["episode_id"], "--to", str(pinned), code=2)
    assert "is there already" in again.err


def test_the_data_folders_pins_are_checked_when_nothing_is_named(stack_cli: Cli, twice: dict[str, Any]) -> None:
    made = Path(stack_cli("episodes", "pin", twice["episode_id"], "--name", "twice", "--json").object["file"])
    assert made == stack_cli.home / "pinned" / "twice.yaml"
    try:
        (found,) = stack_cli("tasks", "check", "--json").object["pins"]
        assert (found["name"], found["holds"]) == ("twice", True)
    finally:
        made.unlink()


def test_a_pin_that_no_longer_holds_is_placed_and_can_be_pinned_again(stack_cli: Cli, pinned: Path) -> None:
    """The world's fault is gone: what was lost arrives, so the process contract passes."""
    fields = yaml.safe_load(pinned.read_text())
    fields["task"]["faults"] = []
    pinned.write_text(yaml.safe_dump(fields))
    edited = stack_cli("tasks", "check", str(pinned), code=2)
    assert f"{pinned}: task: is not what was pinned: it was edited" in edited.out
    assert "--pin-again" in edited.out
    stack_cli("tasks", "check", str(pinned), "--pin-again")
    fields = yaml.safe_load(pinned.read_text())
    settled = next(one for one in fields["expect"]["contracts"] if one["name"] == "settled")
    assert settled["passed"] is True
    assert "holds" not in stack_cli("tasks", "check", str(pinned)).out


def test_what_cannot_be_pinned_is_refused(stack_cli: Cli, twice: dict[str, Any], tmp_path: Path) -> None:
    for arguments, said in (
        (("e-nobody",), "there is no such episode"),
        ((twice["episode_id"], "--to", str(tmp_path / "x.yaml")), "in a folder pinned"),
        ((twice["episode_id"], "--name", "a b"), "is no name"),
    ):
        assert said in stack_cli("episodes", "pin", *arguments, code=2).err
    assert list(tmp_path.iterdir()) == []
    assert "there are no pins here" in stack_cli("tasks", "check", "--pin-again", code=2).err


def test_a_failure_is_shrunk_and_what_is_left_is_pinned(
    stack_cli: Cli, twice: dict[str, Any], tmp_path: Path
) -> None:
    options = ("--contract", "receipts", "--jobs", "3", "--to", str(tmp_path / "suite"))
    said = stack_cli("episodes", "minimise", twice["episode_id"], *options, "--json")
    found = said.object
    made = [call["tool"] for decision in found["decisions"] for call in decision.get("calls", [])]
    assert made == ["create_replacement", "create_replacement"]
    assert (found["calls"], found["minimal"], found["of"]) == ({"before": 7, "after": 2}, True, twice["episode_id"])
    assert f"{found['runs']} run" in said.err or "calls and questions left" in said.err
    (pin,) = stack_cli("tasks", "check", found["pinned"], "--json").object["pins"]
    assert pin["holds"] is True
    shown = stack_cli("episodes", "show", found["episode_id"], "--json").object
    assert (shown["policy"], shown["origin"]["kind"]) == ("recorded", "probe")
    listed = stack_cli("episodes", "list", "--json")
    assert [one["episode_id"] for one in listed.objects] == [twice["episode_id"]]
    assert f"left out: {found['runs']} probes" in listed.err
    origins = [one["origin"] for one in stack_cli("episodes", "list", "--json", "--probes").objects]
    assert len(origins) == found["runs"] + 1
    refused = stack_cli("episodes", "minimise", twice["episode_id"], "--contract", "authorisation", code=2)
    assert "the contract authorisation passed" in refused.err
