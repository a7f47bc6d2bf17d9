"""Files beside a task file: what they become in a task, and what is said of those that cannot be taken."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from schemas.base import JsonValue
from tiltyard.errors import BadTask
from tiltyard.suite import load_suite
from tiltyard.suite.beside import MAX_FILE_BYTES, MAX_FILES, MAX_FOLDER_BYTES, fill_in


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """A task file's folder, with a project in it and a secret beside it."""
    (tmp_path / "secret.txt").write_text("secret")
    folder = tmp_path / "shop"
    for path, text in {"one/a.py": "a = 1\n", "one/deep/b.txt": "{{ b }} ${steps.x}", "note.txt": "n"}.items():
        place = folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    (folder / "one/__pycache__").mkdir()
    (folder / "one/__pycache__/a.pyc").write_bytes(b"\x00\xff")
    return folder


def filled(value: JsonValue, base: Path, where: str = "") -> JsonValue:
    problems: list[BadTask] = []
    found = fill_in(value, base, problems, where)
    assert problems == []
    return found


def problem(value: JsonValue, base: Path) -> BadTask:
    problems: list[BadTask] = []
    assert fill_in({"files": value}, base, problems) == {"files": None}
    (found,) = problems
    return found


def test_a_folder_becomes_texts_by_path_without_what_a_run_leaves_behind(base: Path) -> None:
    wanted = {"a.py": "a = 1\n", "deep/b.txt": "{{ b }} ${steps.x}"}
    assert filled({"x": {"from_folder": "one"}}, base) == {"x": wanted}
    below = filled([{"from_folder": "one", "under": "src/x"}], base)
    assert below == [{f"src/x/{path}": text for path, text in wanted.items()}]


def test_a_file_becomes_its_text(base: Path) -> None:
    assert filled({"x": {"from_file": "one/a.py"}}, base) == {"x": "a = 1\n"}
    assert filled({"from_file": "note.txt"}, base) == "n"


def test_what_a_file_of_a_reference_holds_is_no_expression(base: Path) -> None:
    value: JsonValue = {"steps": [{"content": {"from_file": "one/deep/b.txt"}}]}
    assert filled(value, base, "references.0") == {"steps": [{"content": "{{ b }} $${steps.x}"}]}


def test_everything_else_stays_as_it_is(base: Path) -> None:
    value: JsonValue = {"a": [1, {"from": "x"}, None], "b": "from_file"}
    assert filled(value, base) == value


@pytest.mark.parametrize("key", ["from_file", "from_folder"])
@pytest.mark.parametrize(
    "path", ["../secret.txt", "/etc/passwd", "", ".", "one/../../secret.txt", "one//a.py", 1, None, ["one"], "a\0b"]
)
def test_a_path_never_leads_out(base: Path, key: str, path: JsonValue) -> None:
    found = problem({key: path}, base)
    assert found.field == f"files.{key}"
    assert "below the task file's folder" in found.message
    assert found.fix


@pytest.mark.parametrize("link", ["out", "one/out"])
def test_links_are_refused_wherever_they_lead(base: Path, link: str) -> None:
    os.symlink(base.parent / "secret.txt", base / link)
    assert "link" in problem({"from_file": link}, base).message
    os.symlink(base.parent, base / "up")
    assert "link" in problem({"from_file": "up/secret.txt"}, base).message
    assert "link" in problem({"from_folder": "up"}, base).message


def test_a_link_in_a_folder_is_refused(base: Path) -> None:
    os.symlink("/etc", base / "one/etc")
    assert problem({"from_folder": "one"}, base).message == "etc is a link, or no file"
    (base / "one/etc").unlink()
    os.mkfifo(base / "one/pipe")
    assert problem({"from_folder": "one"}, base).message == "pipe is a link, or no file"


def _large(base: Path) -> None:
    (base / "one/large.txt").write_text("x" * (MAX_FILE_BYTES + 1))


def _many(base: Path) -> None:
    for number in range(MAX_FILES):
        (base / f"one/{number}.txt").touch()


def _heavy(base: Path) -> None:
    for number in range(MAX_FOLDER_BYTES // MAX_FILE_BYTES):
        (base / f"one/{number}.txt").write_text("x" * MAX_FILE_BYTES)


def _binary(base: Path) -> None:
    (base / "one/image.bin").write_bytes(b"\xff\xfe")


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (_large, "large.txt is over 256 KiB"),
        (_many, "one holds over 200 files"),
        (_heavy, "one is over 1024 KiB"),
        (_binary, "image.bin is no UTF-8 text"),
    ],
)
def test_limits(base: Path, spoil: Callable[[Path], None], why: str) -> None:
    spoil(base)
    assert problem({"from_folder": "one"}, base).message == why


@pytest.mark.parametrize(
    ("value", "field"),
    [
        ({"from_file": "one"}, "files.from_file"),
        ({"from_folder": "note.txt"}, "files.from_folder"),
        ({"from_file": "none.txt"}, "files.from_file"),
        ({"from_file": "note.txt", "more": 1}, "files"),
        ({"from_file": "note.txt", "under": "x"}, "files"),
        ({"from_file": "note.txt", "from_folder": "one"}, "files"),
        ({"from_folder": "one", "under": "../x"}, "files.under"),
        ({"from_folder": "one", "under": 1}, "files.under"),
    ],
)
def test_what_is_wrong_is_named(base: Path, value: JsonValue, field: str) -> None:
    assert problem(value, base).field == field


TASK = """
family: lamps
world: shop
instruction: Mend it.
sandbox: {files: {from_folder: "{{ folder }}"}}
contracts: [{kind: answer}]
references: [{steps: [{submit: {}}]}]
variants: {1: {vars: {folder: one}}, 2: {vars: {folder: none}}}
"""


def test_a_task_says_where_its_files_are_and_what_is_wrong_with_them(base: Path) -> None:
    (base / "lamps.yaml").write_text(TASK)
    suite = load_suite(base.parent)
    task = suite.task("shop/lamps/1")
    assert task.sandbox is not None
    assert task.sandbox.files == {"a.py": "a = 1\n", "deep/b.txt": "{{ b }} ${steps.x}"}
    with pytest.raises(BadTask) as caught:
        suite.task("shop/lamps/2")
    assert caught.value.field == "shop/lamps.yaml: variant 2: sandbox.files.from_folder"
    assert "and" not in caught.value.message.split("folder")[0]
