"""Suites of several places, files that a program writes, and tasks that do not count."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from schemas.task import Task
from tiltyard.errors import BadInput, BadTask
from tiltyard.suite import Suite, load_suite, shipped
from tiltyard.suite.places import at_hand, imported, together
from tiltyard.suite.practice import practise, stage
from tiltyard.suite.standing import Standing, standing
from tiltyard.worlds.registry import worlds

INSTRUCTION = "{{ not a variable }} ${steps.none} {% nor this %}"


def family(**changes: Any) -> dict[str, Any]:
    contract = {"kind": "process", "rules": [{"rule": "require", "call": {"tool": "get_user_details"}}]}
    variant = {
        "instruction": INSTRUCTION,
        "contracts": [contract],
        "references": [
            {
                "steps": [
                    {"tool": "get_user_details", "arguments": {"user_id": "u"}, "fails": True},
                    {"submit": {"done": True}},
                ]
            }
        ],
    }
    return {"family": "found", "world": "retail", "limits": {"turns": 7}, "variants": {"a": variant}} | changes


def place(folder: Path, fields: dict[str, Any] | str, name: str = "found.json") -> Path:
    file = folder / "retail" / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(fields if isinstance(fields, str) else json.dumps(fields), encoding="utf-8")
    return folder


def test_a_json_file_is_taken_literally_and_its_common_part_holds_for_each(tmp_path: Path) -> None:
    task = load_suite(place(tmp_path, family())).task("retail/found/a")
    assert task.instruction == INSTRUCTION
    assert task.limits.turns == 7


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"family": "found", "family": "found"}', "'family' stands here twice"),
        ('{"family": NaN}', "NaN"),
        ("[1]", "is not an object"),
        ("{", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ('{"family": "lost", "world": "retail"}', "the file's place says 'found'"),
    ],
)
def test_a_bad_json_file_is_named(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(BadTask, match=says) as error:
        load_suite(place(tmp_path, text)).task("retail/found/a")
    assert error.value.field.startswith("retail/found.json")


def test_half_a_character_is_refused_and_never_breaks_a_check(tmp_path: Path) -> None:
    fields = family(instruction="half of it: \ud800")
    with pytest.raises(BadTask, match=r"found.json: holds half a character, \\ud800"):
        load_suite(place(tmp_path, fields)).match(["retail"])


def test_a_bad_field_of_a_json_file_is_named(tmp_path: Path) -> None:
    fields = family()
    fields["variants"]["a"]["vars"] = {"x": 1}
    with pytest.raises(BadTask) as error:
        load_suite(place(tmp_path, fields)).task("retail/found/a")
    assert error.value.field == "retail/found.json: variant a: vars"


def test_a_task_file_that_is_a_pipe_is_never_waited_for(tmp_path: Path) -> None:
    (tmp_path / "retail").mkdir()
    os.mkfifo(tmp_path / "retail" / "found.yaml")
    with pytest.raises(BadTask, match="no regular file") as error:
        load_suite(tmp_path).task("retail/found/a")
    assert error.value.field == "retail/found.yaml"


def test_one_family_in_two_files_is_refused(tmp_path: Path) -> None:
    place(tmp_path, family())
    place(tmp_path, "family: found", "found.yaml")
    with pytest.raises(BadInput, match="is also in"):
        load_suite(tmp_path)


def test_a_file_that_is_no_task_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no task file"):
        load_suite(place(tmp_path, "x", "notes.txt") / "retail" / "notes.txt")


def test_what_is_imported_stands_beside_what_is_shipped(tmp_path: Path) -> None:
    assert at_hand(tmp_path / "none").ids == shipped().ids
    place(tmp_path / "one", family())
    (tmp_path / "two" / "half").mkdir(parents=True)
    found = at_hand(tmp_path)
    assert set(found.ids) == {*shipped().ids, "retail/found/a"}
    assert list(found.families) == sorted(found.families)
    assert found.task("retail/found").instruction == INSTRUCTION
    assert found.task("replacement/reply-lost/1") == shipped().task("replacement/reply-lost/1")


def test_one_family_in_two_places_is_refused(tmp_path: Path) -> None:
    for name in ("one", "two"):
        place(tmp_path / name, family())
    with pytest.raises(BadInput, match="retail/found is also in") as error:
        together(imported(tmp_path))
    assert error.value.field.endswith("two/retail/found.json")


def made(**metadata: Any) -> Task:
    fields = family()["variants"]["a"]
    return Task.model_validate({**fields, "id": "retail/found/a", "world": "retail", "metadata": metadata})


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ({}, Standing.COUNTED),
        ({"idle_passes": True}, Standing.IDLE_PASSES),
        ({"idle_passes": "no"}, Standing.COUNTED),
        ({"unscorable": "nothing to judge by"}, Standing.UNSCORABLE),
        ({"unscorable": "nothing to judge by", "idle_passes": True}, Standing.UNSCORABLE),
        ({"unscorable": ""}, Standing.COUNTED),
    ],
)
def test_a_task_says_how_it_counts(metadata: dict[str, Any], expected: Standing) -> None:
    assert standing(made(**metadata)) is expected


def test_the_reference_of_a_task_that_cannot_be_judged_need_not_complete_it() -> None:
    task = Task.model_validate({**made().model_dump(), "contracts": [{"kind": "answer", "accept": []}]})
    engine = stage(worlds())
    assert [problem.field for problem in practise(task, engine)] == ["retail/found/a: references.0"]
    assert practise(task.model_copy(update={"metadata": {"unscorable": "so it is"}}), engine) == ()


def test_suites_are_empty_without_places() -> None:
    assert together(()) == Suite({})
