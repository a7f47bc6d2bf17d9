"""Which of the agent's files an examination takes, and which tests it expects."""

from typing import Any

import pytest

from schemas.base import sha256
from schemas.contract import TestsContract as Contract
from schemas.sandbox import FileEntry, SandboxPlan, Snapshot
from tiltyard.errors import BadInput
from tiltyard.graders.exam_files import (
    MAX_SOURCE_BYTES,
    MAX_SOURCES,
    ExamFiles,
    exam_files,
    expected_tests,
    is_source,
)

PLAN = SandboxPlan(
    files={"shop/a.py": "a", "shop/b.py": "b", "shop/data/rates.csv": "1", "tests/test_a.py": "", "README.md": "r"}
)


def contract(*sources: str, **more: Any) -> Contract:
    return Contract.model_validate(
        {"sources": sources or ("shop/*.py",), "hidden_files": {"hidden_tests/test_b.py": ""}, **more}
    )


def left(*entries: FileEntry, without: tuple[str, ...] = ()) -> Snapshot:
    """The task's files as they were, with these laid over them."""
    found = {path: entry(path, text) for path, text in PLAN.files.items() if path not in without}
    return Snapshot(entries=tuple(({**found, **{one.path: one for one in entries}}).values()))


def entry(path: str, text: str) -> FileEntry:
    content = text.encode()
    return FileEntry(path=path, size=len(content), digest=sha256(content), content=content)


def examined(snapshot: Snapshot, of: Contract | None = None) -> ExamFiles:
    return exam_files(PLAN, of or contract(), snapshot)


def test_sources_are_the_agents_and_everything_else_is_the_tasks_own() -> None:
    found = examined(left(entry("shop/a.py", "mended"), entry("tests/test_a.py", "pass"), entry("README.md", "")))
    assert found.files == {
        "shop/a.py": b"mended",
        "shop/b.py": b"b",
        "shop/data/rates.csv": b"1",
        "tests/test_a.py": b"",
        "README.md": b"r",
    }
    assert found.refused == ()


def test_a_source_may_be_added_and_deleted() -> None:
    found = examined(left(entry("shop/new.py", "n"), without=("shop/b.py", "tests/test_a.py")))
    assert found.files["shop/new.py"] == b"n"
    assert "shop/b.py" not in found.files
    assert found.files["tests/test_a.py"] == b""


@pytest.mark.parametrize("path", ["conftest.py", "sitecustomize.py", "tests/test_new.py", "setup.cfg"])
def test_what_no_glob_names_is_not_taken(path: str) -> None:
    assert path not in examined(left(entry(path, "x"))).files


def test_links_and_folders_in_the_place_of_sources_are_refused_and_absent() -> None:
    found = examined(
        left(
            FileEntry(path="shop/a.py", kind="link", target="/etc/passwd"),
            FileEntry(path="shop/b.py", kind="directory"),
            FileEntry(path="shop/new.py", kind="link", target="a.py"),
            FileEntry(path="shop/more.py", kind="directory"),
        )
    )
    assert found.refused == ("shop/a.py", "shop/b.py", "shop/new.py")
    assert not found.files.keys() & {"shop/a.py", "shop/b.py", "shop/new.py", "shop/more.py"}


@pytest.mark.parametrize(
    "path",
    [
        *("tests/test_a.py", "tests/deep/x.py", "hidden_tests/test_b.py", "hidden_tests/__init__.py"),
        *("shop/__pycache__/a.cpython-311.pyc", "shop/a.pyc", "shop/__pycache__/a.py", "tests", "hidden_tests"),
    ],
)
def test_tests_and_compiled_files_are_never_sources(path: str) -> None:
    assert not is_source(contract("*"), path)
    assert is_source(contract("*"), f"shop/{path.split('/')[-1].removesuffix('c')}.txt")


def test_a_source_gives_way_to_the_files_that_the_task_needs() -> None:
    found = examined(
        left(entry("shop/data", "x"), entry("README.md/x.py", "x"), without=("README.md",)), contract("*")
    )
    assert found.refused == ()  # with every file a source there is nothing in the way
    found = examined(left(entry("shop/data", "x"), entry("README.md/x.py", "x")), contract("shop/data", "*/x.py"))
    assert found.refused == ("shop/data", "README.md/x.py")
    assert found.files["shop/data/rates.csv"] == b"1"


def test_a_flood_of_sources_leaves_an_examination_possible() -> None:
    large = entry("shop/large.py", "x" * (MAX_SOURCE_BYTES - 1))
    found = examined(left(large, entry("shop/more.py", "xx")))
    assert found.refused == ("shop/large.py",)
    many = [entry(f"shop/n{number:04}.py", "") for number in range(MAX_SOURCES)]
    assert examined(left(*many)).refused == ("shop/n0998.py", "shop/n0999.py")


def test_the_sandbox_begins_with_these_files() -> None:
    start = examined(left()).laid_over({"hidden_tests/test_b.py": "h"}).start()
    assert [one.path for one in start.entries] == sorted([*PLAN.files, "hidden_tests/test_b.py"])
    assert all(one.content is not None and one.digest == sha256(one.content) for one in start.entries)


def test_tests_are_found_without_running_anything() -> None:
    text = """
raise SystemExit
class TestA(Base):
    def test_x(self): ...
    async def test_y(self): ...
    def helper(self):
        def test_inner(): ...
    class TestInner:
        def test_z(self): ...
def test_function(): ...
"""
    files = {
        "tests/test_a.py": text,
        "tests/deep/test_b.py": text,
        "tests/helper.py": text,
        "other/test_c.py": text,
    }
    assert expected_tests(files, "tests") == (
        "tests.deep.test_b.TestA.test_x",
        "tests.deep.test_b.TestA.test_y",
        "tests.test_a.TestA.test_x",
        "tests.test_a.TestA.test_y",
    )


def test_a_file_that_is_no_python_is_named() -> None:
    with pytest.raises(BadInput, match=r"tests/test_a\.py: is no Python"):
        expected_tests({"tests/test_a.py": "def ("}, "tests")
