"""What the exam runner reports of tests, and what code under test can do about it."""

from pathlib import Path

import pytest

from schemas.exam import TestRun
from tiltyard.graders.tests import failings

from .sitting import NONCE, sit

GOOD = """\
import unittest

import shop


class TestShop(unittest.TestCase):
    def test_one(self):
        self.assertEqual(shop.price(1), 10)

    def test_two(self):
        self.assertEqual(shop.price(2), 20)
"""
TESTS = ("tests.test_shop.TestShop.test_one", "tests.test_shop.TestShop.test_two")


def run(folder: Path, shop: str, test: str = GOOD, tests: tuple[str, ...] = TESTS) -> TestRun:
    return sit(folder, {"shop.py": shop, "tests/test_shop.py": test}, tests)


def outcomes(found: TestRun) -> list[str]:
    return [report.outcome for report in found.reports]


def test_tests_that_pass(tmp_path: Path) -> None:
    found = run(tmp_path, "def price(n): return 10 * n")
    assert found.passed
    assert [report.test for report in found.reports] == list(TESTS)
    assert (found.exit_code, found.finished, found.patched) == (0, True, ())


def test_a_failure_is_told_with_its_first_line(tmp_path: Path) -> None:
    found = run(tmp_path, "def price(n): return 10")
    assert outcomes(found) == ["passed", "failed"]
    assert found.reports[1].detail == "AssertionError: 10 != 20"
    assert (found.passed, found.exit_code, found.finished) == (False, 1, True)


@pytest.mark.parametrize(
    ("shop", "outcome"),
    [
        ("def price(n): raise KeyError(n)", "error"),
        ("import unittest\ndef price(n): raise unittest.SkipTest('no')", "skipped"),
        ("def price(n): raise SystemExit(0)", "error"),
        ("raise ImportError('nothing here')", "error"),
        ("class Odd(Exception):\n  def __str__(self): raise ValueError\ndef price(n): raise Odd", "error"),
    ],
)
def test_whatever_is_no_pass_is_none(tmp_path: Path, shop: str, outcome: str) -> None:
    found = run(tmp_path, shop)
    assert outcomes(found) == [outcome, outcome]
    assert (found.passed, found.exit_code, found.finished) == (False, 1, True)


def test_a_subtest_that_fails_is_a_failure_of_its_test_and_told_once(tmp_path: Path) -> None:
    test = GOOD.replace(
        "self.assertEqual(shop.price(2), 20)",
        "\n        for n in range(5):\n            with self.subTest(n=n):\n                self.assertEqual(n, 0)",
    )
    found = run(tmp_path, "def price(n): return 10 * n", test)
    assert outcomes(found) == ["passed", "failed"]


def test_a_test_that_expects_to_fail_has_not_passed(tmp_path: Path) -> None:
    test = GOOD.replace("    def test_two", "    @unittest.expectedFailure\n    def test_two")
    for shop, wanted in [("def price(n): return 10", "failed"), ("def price(n): return 10 * n", "failed")]:
        assert outcomes(run(tmp_path, shop, test)) == ["passed", wanted]


@pytest.mark.parametrize("test", ["tests.test_shop.TestShop.test_none", "tests.nothing.TestShop.test_one"])
def test_a_test_that_is_not_there_is_an_error(tmp_path: Path, test: str) -> None:
    found = run(tmp_path, "def price(n): return 10 * n", tests=(TESTS[0], test))
    assert sorted(outcomes(found)) == ["error", "passed"]
    assert not found.passed
    assert found.exit_code == 1


EARLY = ["import os\nos._exit(0)", "raise SystemExit(0)", "import sys\nsys.exit()"]


@pytest.mark.parametrize("shop", EARLY)
def test_whoever_ends_the_run_early_has_reported_nothing(tmp_path: Path, shop: str) -> None:
    found = run(tmp_path, shop)
    assert found == TestRun(expected=TESTS, exit_code=0)
    assert not found.passed
    assert list(failings(found)) == [f"did not report: {', '.join(TESTS)}", "the run ended early: exit code 0"]


FORGERS = {
    "prints reports, the nonce included": f"""\
import json, os
for test in {TESTS}:
    report = json.dumps({{"test": test, "outcome": "passed"}})
    print(report, flush=True)
    os.write(1, f"{NONCE} {{report}}\\n".encode())
os.write(1, b'{NONCE} {{"end": true, "patched": []}}\\n')
os._exit(0)
""",
    "reads the plan": """\
import sys
plan = sys.stdin.read()
assert not plan
def price(n): return 0
""",
    "passes every comparison": """\
import unittest
unittest.TestCase.assertEqual = lambda self, *values: None
def price(n): return 0
""",
    "makes failures successes": """\
import unittest
unittest.TestResult.addFailure = lambda self, test, error: self.addSuccess(test)
import __main__
__main__.Reporting.addFailure = lambda self, test, error: self.addSuccess(test)
def price(n): return 0
""",
    "never runs a test": """\
import unittest
unittest.TestCase.run = lambda self, result: result.addSuccess(self)
def price(n): return 0
""",
    "takes over at the first call": """\
def price(n):
    import unittest
    unittest.TestCase.assertEqual = lambda self, *values: None
    return 0
""",
    "ends well": """\
import atexit, os
atexit.register(os._exit, 0)
def price(n): return 0
""",
}


@pytest.mark.parametrize("shop", FORGERS.values(), ids=FORGERS.keys())
def test_a_pass_cannot_be_had_by_simple_means(tmp_path: Path, shop: str) -> None:
    """An agent wrote the verdict itself (pier 51)."""
    assert not run(tmp_path, shop).passed


def test_what_was_patched_is_named(tmp_path: Path) -> None:
    found = run(tmp_path, FORGERS["never runs a test"])
    assert outcomes(found) == ["passed", "passed"]
    assert found.patched == ("unittest.case.TestCase.run",)


def test_a_patch_for_the_time_of_a_test_is_none(tmp_path: Path) -> None:
    test = GOOD.replace(
        "self.assertEqual(shop.price(2), 20)",
        "\n        from unittest import mock\n        with mock.patch('builtins.print') as told:\n"
        "            shop.price(2)\n        told.assert_called_once_with(2)",
    )
    assert run(tmp_path, "def price(n):\n    print(n)\n    return 10 * n", test).passed


def test_neither_hooks_nor_compiled_files_are_loaded(tmp_path: Path) -> None:
    hook = "import unittest\nunittest.TestCase.run = lambda self, result: result.addSuccess(self)\n"
    files = {
        "shop.py": "def price(n): return 0",
        "tests/test_shop.py": GOOD,
        **dict.fromkeys(("sitecustomize.py", "usercustomize.py", "conftest.py"), hook),
        "unittest.py": "raise SystemExit(0)",
    }
    found = sit(tmp_path, files, TESTS)
    assert (outcomes(found), found.patched, found.finished) == (["failed", "failed"], (), True)
    assert not list(tmp_path.rglob("*.pyc"))
