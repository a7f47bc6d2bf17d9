"""Tasks that are graded by tests: each mistake that would spoil the examination is found without a run."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from schemas.base import canonical
from schemas.task import Task
from tiltyard.suite import check_task, shipped
from tiltyard.suite.practice import practise, stage
from tiltyard.worlds.code_repair.world import WORLD

GOOD = shipped().task("code-repair/repair/1")


def problems(edit: Callable[[dict[str, Any]], object]) -> list[tuple[str, str]]:
    fields = json.loads(canonical(GOOD))
    edit(fields)
    return [(one.field, one.message) for one in check_task(Task.model_validate(fields), WORLD)]


def contract(fields: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = fields["contracts"][0]
    return found


def files(fields: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = fields["sandbox"]["files"]
    return found


@pytest.mark.parametrize("task", shipped().match(["code-repair"]), ids=lambda task: task.id)
def test_what_is_shipped_has_none(task: Task) -> None:
    assert check_task(task, WORLD) == ()
    assert practise(task, stage({"code-repair": WORLD})) == ()


def no_tests(fields: dict[str, Any]) -> None:
    for path in list(files(fields)):
        if path.startswith("tests/test"):
            files(fields)[path] = "x = 1\n"


@pytest.mark.parametrize(
    ("edit", "field", "message"),
    [
        (no_tests, "contracts.0.visible", "sandbox.files has no test below tests"),
        (
            lambda f: contract(f).update(hidden="other"),
            "contracts.0.hidden",
            "hidden_files has no test below other",
        ),
        (
            lambda f: files(f).update({"tests/test_pages.py": "def ("}),
            "contracts.0.visible",
            "tests/test_pages.py is no Python",
        ),
        (lambda f: contract(f).update(sources=["shop/*.py"]), "contracts.0.sources.0", "that may be mended fits"),
        (lambda f: contract(f).update(sources=["tests/*.py"]), "contracts.0.sources.0", "that may be mended fits"),
        (lambda f: contract(f).update(sources=["*/listing.py"]), "contracts.0.sources", "no reference writes"),
        (lambda f: contract(f).update(protected=["*"]), "contracts.0.protected", "is also a source"),
        (
            lambda f: files(f).update(contract(f)["hidden_files"]),
            "contracts.0.hidden_files",
            "hidden_tests/test_paging.py is also in sandbox.files",
        ),
        (
            lambda f: contract(f)["hidden_files"].update({"tests/test_more.py": ""}),
            "contracts.0.hidden_files",
            "tests/test_more.py is among the visible tests",
        ),
    ],
)
def test_a_mistake_is_found_and_named(edit: Callable[[dict[str, Any]], object], field: str, message: str) -> None:
    found = problems(edit)
    assert any(where == f"{GOOD.id}: {field}" and message in what for where, what in found), found


def test_tools_of_the_sandbox_are_known_and_their_arguments_checked() -> None:
    def misspell(fields: dict[str, Any]) -> None:
        step = next(one for one in fields["references"][0]["steps"] if one["tool"] == "write_file")
        step["arguments"] = {"path": 1, "contents": ""}

    found = [field for field, _ in problems(misspell)]
    assert [field.rsplit(".", 1)[1] for field in found if ".arguments." in field] == ["path", "content", "contents"]


ZERO = "holds a zero byte, which no command can"


def with_step(tool: str, *, fails: bool = False, **arguments: Any) -> list[tuple[str, str]]:
    """What is wrong with the arguments of a step before the last."""

    def insert(fields: dict[str, Any]) -> None:
        step = {"tool": tool, "arguments": arguments, "fails": fails}
        fields["references"][0]["steps"].insert(1, step)
        fields["references"][0]["steps"][0]["name"] = "ticket"

    return [(where.rsplit(": references.0.steps.1.", 1)[1], what) for where, what in problems(insert)]


@pytest.mark.parametrize("tool", ["read_file", "write_file"])
@pytest.mark.parametrize(
    "path", ["../../etc/passwd", "/etc/passwd", "/work", "/work/../x", "a//b", "a/./b", "x" * 1025]
)
def test_a_step_with_a_path_that_the_sandbox_refuses_is_found(tool: str, path: str) -> None:
    more: dict[str, Any] = {"content": "x"} if tool == "write_file" else {"offset": "${steps.ticket.n}"}
    (found,) = with_step(tool, path=path, **more)
    assert found[0] == "arguments.path"
    assert with_step(tool, fails=True, path=path, **more) == []


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ({"command": "true", "timeout_s": 9999}, [("timeout_s", "is 9999; sandbox.limits.command_s is 30")]),
        ({"command": "true", "timeout_s": 30}, []),
        ({"command": "a\0b"}, [("command", ZERO)]),
        ({"command": "a\0b", "timeout_s": "${steps.ticket.n}"}, [("command", ZERO)]),
        ({"command": "ä" * 100_000}, [("command", "has 200000 bytes")]),
        ({"command": "true", "cwd": "${steps.ticket.n}"}, [("cwd", "Extra inputs are not permitted")]),
    ],
    ids=["too long", "as long as may be", "zero byte", "zero byte and late", "too large", "unknown and late"],
)  # fmt: skip
def test_a_command_that_the_sandbox_refuses_is_found(
    arguments: dict[str, Any], found: list[tuple[str, str]]
) -> None:
    assert with_step("shell", **arguments) == [(f"arguments.{name}", what) for name, what in found]


@pytest.mark.parametrize(
    "arguments",
    [
        {"tool": "read_file", "path": "/work/catalogue/pages.py"},
        {"tool": "read_file", "path": "${steps.ticket.report}", "limit": "${steps.ticket.n}"},
        {"tool": "write_file", "path": "a/$${b}", "content": "${steps.ticket.report}"},
    ],
)
def test_what_the_sandbox_takes_and_what_only_a_run_knows_is_no_mistake(arguments: dict[str, Any]) -> None:
    assert with_step(**arguments) == []


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("/work/catalogue/pages.py", []),
        ("../catalogue/pages.py", ["references.0.steps.4.arguments.path"]),
        ("${steps.ticket.title}", []),
        ("README.md", ["contracts.0.sources"]),
    ],
)
def test_the_only_write_is_told_of_once(path: str, found: list[str]) -> None:
    def write(fields: dict[str, Any]) -> None:
        steps = fields["references"][0]["steps"]
        steps[0]["name"] = "ticket"
        next(one for one in steps if one["tool"] == "write_file")["arguments"]["path"] = path

    assert [where.removeprefix(f"{GOOD.id}: ") for where, _ in problems(write)] == found


def test_without_a_sandbox_its_tools_are_unknown() -> None:
    def strip(fields: dict[str, Any]) -> None:
        del fields["sandbox"]
        fields["contracts"] = fields["contracts"][1:]

    assert any("no tool 'shell'" in message for _, message in problems(strip))


def test_a_task_that_idlers_pass_is_found() -> None:
    fields = json.loads(canonical(GOOD))
    contract(fields)["idle_passes"] = True
    (found,) = practise(Task.model_validate(fields), stage({"code-repair": WORLD}))
    assert found.field == f"{GOOD.id}: contracts.0.idle_passes"
