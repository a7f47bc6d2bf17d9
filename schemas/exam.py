"""Examinations: what the tests of a task said of the files that an episode left."""

from typing import Literal

from schemas.base import Model


class TestReport(Model):
    """One test as the runner reported it. ``detail`` is the error's first line, cut: text of code under test."""

    __test__ = False

    test: str
    outcome: Literal["passed", "failed", "error", "skipped"]
    detail: str = ""


class TestRun(Model):
    """One run of a folder of tests in a fresh sandbox.

    ``expected`` are the tests that the task's own files hold, found without running anything. ``exit_code`` is
    ``None`` when a signal ended the run. ``finished`` says that the runner came to its end, and ``patched`` names
    parts of Python's test framework, the library below it or the tests that were other ones on the way.
    """

    __test__ = False

    expected: tuple[str, ...]
    reports: tuple[TestReport, ...] = ()
    exit_code: int | None = None
    signal: str = ""
    timed_out: bool = False
    out_of_memory: bool = False
    finished: bool = False
    patched: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether each expected test was reported once and passed, nothing else, and the run ended well."""
        told = [report.test for report in self.reports]
        return (
            self.finished
            and self.exit_code == 0
            and not self.patched
            and sorted(told) == sorted(self.expected)
            and all(report.outcome == "passed" for report in self.reports)
        )


class Exam(Model):
    """What the tests of one contract said. ``contract`` is its place in the task.

    ``refused`` are paths that the contract's sources match and that were not taken: they are no regular files, or
    stand in the way of a file of the task.
    """

    contract: int
    visible: TestRun
    hidden: TestRun
    refused: tuple[str, ...] = ()


class Exams(Model):
    """All examinations of one episode, kept as an object beside its trace: from both it can be graded again.

    ``failed`` says why they could not be held, where they could not.
    """

    exams: tuple[Exam, ...] = ()
    failed: str = ""
