"""Every public report of what went wrong elsewhere is a test that names it: one that is lost is missed."""

import ast
import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
REPORTS: list[dict[str, Any]] = tomllib.loads((ROOT / "tests/public_reports.toml").read_text())["report"]


@cache
def functions_of(file: str) -> dict[str, str]:
    """The functions of a file, with their docstrings."""
    tree = ast.parse((ROOT / file).read_text())
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return {one.name: ast.get_docstring(one) or "" for one in functions}


def names(docstring: str, report: str) -> bool:
    """Whether it has the project, and the number after it: ``moby 33039, 41052`` has both."""
    project, _, number = report.rpartition(" ")
    return re.search(rf"{re.escape(project)} [\d, ]*\b{number}\b", " ".join(docstring.split())) is not None


@pytest.mark.parametrize("report", REPORTS, ids=lambda report: report["id"])
def test_a_report_is_a_test(report: dict[str, Any]) -> None:
    found = [functions_of(file).get(name) for file, _, name in (test.partition("::") for test in report["tests"])]
    missing = [test for test, docstring in zip(report["tests"], found, strict=True) if docstring is None]
    assert found
    assert not missing, "renamed or lost: name the tests that show it now"
    assert names(found[0] or "", report["id"]), (
        f"{report['tests'][0]} does not name {report['id']} in its docstring"
    )


def test_each_is_listed_once() -> None:
    listed = [report["id"] for report in REPORTS]
    assert len(set(listed)) == len(listed)


@pytest.mark.parametrize(
    ("docstring", "found"),
    [("It hangs (moby 33039, 41052).", True), ("It hangs (moby 33039).", False), ("It hangs (runc 41052).", False)],
)
def test_a_docstring_that_does_not_name_it_is_noticed(docstring: str, found: bool) -> None:
    assert names(docstring, "moby 41052") is found
