"""The projects of the family ``repair``: each has a fault that its tests show, and a repair that both kinds pass.

The tests are run by the exam runner in a plain folder: what is written here is ours, and needs no sandbox.
"""

from collections.abc import Mapping
from pathlib import Path

import pytest

from schemas.contract import TestsContract as Contract
from schemas.exam import TestRun as Run
from schemas.sandbox import SandboxPlan
from schemas.task import Task
from tests.text_project import TextProject
from tests.unit.graders.sitting import sit
from tiltyard.graders.exam_files import expected_tests, is_source
from tiltyard.policies.catalogue import SCRIPTS
from tiltyard.references import resolve
from tiltyard.suite import shipped

TASKS = {task.id.rsplit("/", 1)[1]: task for task in shipped().match(["code-repair/repair"])}


def contract_of(task: Task) -> Contract:
    (contract,) = (one for one in task.contracts if isinstance(one, Contract))
    return contract


def plan_of(task: Task) -> SandboxPlan:
    assert task.sandbox is not None
    return task.sandbox


def repair_of(task: Task) -> dict[str, str]:
    steps = [resolve(step.arguments, {}) for step in task.references[0].steps if step.tool == "write_file"]
    return {str(step["path"]): str(step["content"]) for step in steps if isinstance(step, dict)}


def visible(task: Task, folder: Path, changes: Mapping[str, str]) -> Run:
    files, contract = {**plan_of(task).files, **changes}, contract_of(task)
    return sit(folder, files, expected_tests(plan_of(task).files, contract.visible))


def hidden(task: Task, folder: Path, changes: Mapping[str, str]) -> Run:
    contract = contract_of(task)
    files = {**plan_of(task).files, **changes, **contract.hidden_files}
    return sit(folder, files, expected_tests(contract.hidden_files, contract.hidden))


def passed(run: Run) -> int:
    assert run.finished
    assert not run.patched
    return sum(report.outcome == "passed" for report in run.reports)


def test_there_are_eight_projects_of_several_files_with_a_readme() -> None:
    assert list(TASKS) == [str(number) for number in range(1, 9)]
    for task in TASKS.values():
        files = plan_of(task).files
        assert "README.md" in files
        assert sum(is_source(contract_of(task), path) for path in files) >= 3
        assert contract_of(task).visible in {path.split("/")[0] for path in files}
    assert len({task.instruction for task in TASKS.values()}) == 8


@pytest.mark.parametrize("variant", TASKS)
def test_the_fault_shows_and_the_repair_holds(variant: str, tmp_path: Path) -> None:
    task = TASKS[variant]
    repair = repair_of(task)
    assert list(repair) == [path for path in repair if is_source(contract_of(task), path)]
    broken = visible(task, tmp_path / "broken", {})
    assert 0 < passed(broken) < len(broken.expected)
    assert not hidden(task, tmp_path / "broken-hidden", {}).passed
    assert visible(task, tmp_path / "mended", repair).passed
    assert hidden(task, tmp_path / "mended-hidden", repair).passed


@pytest.mark.parametrize("variant", TASKS)
def test_the_answers_of_the_visible_tests_are_not_enough(variant: str, tmp_path: Path) -> None:
    task = TASKS[variant]
    files = plan_of(task).files
    project = TextProject(dict(files))
    assert project.play(SCRIPTS["hardcoder"].script, task.instruction).submit
    changes = project.changed(files)
    assert visible(task, tmp_path / "visible", changes).passed
    assert not hidden(task, tmp_path / "hidden", changes).passed


@pytest.mark.parametrize("variant", TASKS)
def test_nothing_that_the_agent_is_given_tells_of_the_hidden_tests(variant: str) -> None:
    task = TASKS[variant]
    given = "\n".join([task.instruction, *plan_of(task).files, *plan_of(task).files.values()])
    for path, text in contract_of(task).hidden_files.items():
        assert path not in given
        assert not text or text not in given
    assert "hidden" not in given
