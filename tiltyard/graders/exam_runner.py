"""Runs tests in a fresh sandbox and reports each one: ``python3 -I -S -B -c SOURCE`` with a plan on its input.

The plan is JSON: ``{"nonce": TEXT, "tests": [ID, …]}``. Reports go to the real standard output, one line each:
the nonce, a space, and JSON. What the code under test prints goes nowhere. It needs the standard library alone, and
is sent as text: it imports nothing of ours.
"""

from __future__ import annotations

import builtins
import importlib
import json
import os
import sys
import unittest
import unittest.case
from collections.abc import Callable
from typing import Any

Send = Callable[[dict[str, Any]], None]

MAX_DETAIL = 200
"""Characters of what is told of an error."""


def main() -> None:
    plan = json.load(sys.stdin)
    result = Reporting(claim_output(plan["nonce"]))
    before = parts()
    sys.path.insert(0, os.getcwd())
    suite = unittest.TestSuite()
    for test in plan["tests"]:
        load(test, suite, result)
    suite.run(result)
    now = parts()
    result.send({"end": True, "patched": sorted(name for name in before if now.get(name) is not before[name])})
    os._exit(0 if result.all_passed else 1)


def claim_output(nonce: str) -> Send:
    """Take standard input and output away from the code under test; what sends a report."""
    output = os.dup(1)
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)

    def send(report: dict[str, Any]) -> None:
        os.write(output, f"{nonce} {json.dumps(report)}\n".encode())

    return send


def load(test: str, suite: unittest.TestSuite, result: Reporting) -> None:
    """Add a test by its id; one that cannot be loaded has failed."""
    module, case, method = test.rsplit(".", 2)
    try:
        suite.addTest(getattr(importlib.import_module(module), case)(method))
    except Exception as error:
        result.tell(test, "error", error)


class Reporting(unittest.TestResult):
    """Sends each outcome as it comes. A subtest that fails is a failure of its test."""

    def __init__(self, send: Send) -> None:
        super().__init__()
        self.send = send
        self.all_passed = True
        self.last_failed = ""

    def tell(self, test: str, outcome: str, error: BaseException | None = None) -> None:
        self.all_passed = self.all_passed and outcome == "passed"
        self.send({"test": test, "outcome": outcome, "detail": detail_of(error)})

    def addSuccess(self, test: Any) -> None:
        self.tell(test.id(), "passed")

    def addError(self, test: Any, err: Any) -> None:
        self.tell(test.id(), "error", err[1])

    def addFailure(self, test: Any, err: Any) -> None:
        self.tell(test.id(), "failed", err[1])

    def addSkip(self, test: Any, reason: str) -> None:
        self.tell(test.id(), "skipped")

    def addExpectedFailure(self, test: Any, err: Any) -> None:
        self.tell(test.id(), "failed", err[1])

    def addUnexpectedSuccess(self, test: Any) -> None:
        self.tell(test.id(), "failed")

    def addSubTest(self, test: Any, subtest: Any, err: Any) -> None:
        if err is not None and self.last_failed != test.id():
            self.last_failed = test.id()
            self.tell(test.id(), "failed", err[1])


GUARDED: dict[str, Any] = {
    "builtins": builtins,
    "unittest.TestCase": unittest.TestCase,
    "unittest.TestResult": unittest.TestResult,
    "unittest.TestSuite": unittest.TestSuite,
    "unittest.case": unittest.case,
    "Reporting": Reporting,
}
"""What decides whether a test passes, apart from the test and the code under it."""


def parts() -> dict[str, Any]:
    """Every part of what is guarded, by name, as it is now."""
    return {f"{name}.{part}": value for name, owner in GUARDED.items() for part, value in vars(owner).items()}


def detail_of(error: BaseException | None) -> str:
    """An error's kind and the first line of what it says, cut."""
    if error is None:
        return ""
    kind = type(error).__name__
    try:
        return ascii(f"{kind}: {str(error).splitlines()[0]}")[1:-1][:MAX_DETAIL]
    except Exception:  # it says nothing, or its text raises: it is still an error
        return kind


if __name__ == "__main__":
    main()
