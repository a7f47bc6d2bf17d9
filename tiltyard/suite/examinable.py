"""Checks of tests contracts that need no run: there are tests and sources, and no secret in plain sight."""

from collections.abc import Iterator

from schemas.contract import TestsContract
from schemas.sandbox import SandboxPlan
from schemas.task import Task
from tiltyard.errors import BadInput
from tiltyard.graders.exam_files import expected_tests, is_source, matches, within
from tiltyard.references import expressions
from tiltyard.sandbox.tools import below_work, write_file
from tiltyard.suite.beside import is_path

WRITES = write_file.spec.name


def examinable(task: Task) -> Iterator[BadInput]:
    """Everything that would keep the task's tests from telling an honest repair from none."""
    for index, contract in enumerate(task.contracts):
        if isinstance(contract, TestsContract) and task.sandbox is not None:
            for problem in _problems(contract, task.sandbox, task):
                yield BadInput(problem.message, field=f"contracts.{index}.{problem.field}", fix=problem.fix)


def _problems(contract: TestsContract, plan: SandboxPlan, task: Task) -> Iterator[BadInput]:
    yield from _tests("visible", contract.visible, dict(plan.files), "sandbox.files")
    yield from _tests("hidden", contract.hidden, dict(contract.hidden_files), "hidden_files")
    yield from _sources(contract, plan)
    yield from _secrets(contract, plan)
    if not any(_mends(contract, path) for path in _written(task)):
        fix = f"have a reference write one of them with {WRITES}"
        yield BadInput("no reference writes a source", field="sources", fix=fix)


def _tests(field: str, folder: str, files: dict[str, str], where: str) -> Iterator[BadInput]:
    try:
        if not expected_tests(files, folder):
            fix = "add a file test*.py with a class that has methods test*"
            yield BadInput(f"{where} has no test below {folder}", field=field, fix=fix)
    except BadInput as error:
        yield BadInput(f"{error.field} {error.message}", field=field, fix="mend it: tests are Python files")


def _sources(contract: TestsContract, plan: SandboxPlan) -> Iterator[BadInput]:
    for at, glob in enumerate(contract.sources):
        if not any(matches(path, (glob,)) and is_source(contract, path) for path in plan.files):
            why = f"no file of the sandbox that may be mended fits {glob!r}"
            yield BadInput(why, field=f"sources.{at}", fix="name the sources")
    for path in plan.files:
        if is_source(contract, path) and matches(path, contract.protected):
            yield BadInput(f"{path} is also a source", field="protected", fix="it is one or the other")


def _secrets(contract: TestsContract, plan: SandboxPlan) -> Iterator[BadInput]:
    for path in contract.hidden_files:
        if path in plan.files:
            yield BadInput(f"{path} is also in sandbox.files", field="hidden_files", fix="the agent would read it")
        elif within(path, contract.visible):
            yield BadInput(f"{path} is among the visible tests", field="hidden_files", fix="put it below hidden")


def _mends(contract: TestsContract, path: object) -> bool:
    """Whether a file that is written there may be a source.

    A path that only a run can fill in may be one; one that no sandbox takes is told of elsewhere.
    """
    if not isinstance(path, str):
        return False
    return (
        any(True for _ in expressions(path))
        or not is_path(below_work(path))
        or is_source(contract, below_work(path))
    )


def _written(task: Task) -> Iterator[object]:
    steps = (step for reference in task.references for step in reference.steps)
    yield from (step.arguments.get("path") for step in steps if step.tool == WRITES)
