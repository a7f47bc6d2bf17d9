"""The public τ²-bench data beside the checkout: what importing it gives, and that its references hold."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from infra.stores.imports import keep
from schemas.contract import AnswerContract, StateContract
from schemas.task import Task
from tiltyard.episode.grading import examine
from tiltyard.importing.tau2 import Imported, import_tau2
from tiltyard.policies.catalogue import open_script
from tiltyard.suite import Suite, load_suite
from tiltyard.suite.standing import Standing, standing
from tiltyard.testing.memory_worlds import MemoryWorlds
from tiltyard.testing.rehearse import rehearse
from tiltyard.worlds.differences import differences
from tiltyard.worlds.engine import Engine
from tiltyard.worlds.imported import WithImported
from tiltyard.worlds.registry import worlds

DATA = Path(__file__).parents[3] / "shared" / "data" / "retail"

pytestmark = [
    pytest.mark.shared,
    pytest.mark.skipif(not (DATA / "tasks.json").is_file(), reason=f"the public retail data is not at {DATA}"),
]


@pytest.fixture(scope="module")
def imported() -> Imported:
    return import_tau2(DATA, worlds())


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, imported: Imported) -> Path:
    home = tmp_path_factory.mktemp("home")
    keep(imported, home, home / "templates", home / "suites")
    return home


@pytest.fixture(scope="module")
def suite(home: Path) -> Suite:
    return load_suite(home / "suites" / "tau2")


def reference_cases() -> dict[str, Any]:
    cases = map(json.loads, (DATA / "cases.jsonl").read_text(encoding="utf-8").splitlines())
    return {case["id"].replace("retail-", "retail/tau2/"): case for case in cases if case["kind"] == "reference"}


def expected_end(task: Task) -> dict[str, Any]:
    """What the task's state contract expects of every changed entity."""
    changed: dict[str, Any] = {}
    for contract in task.contracts:
        if isinstance(contract, StateContract):
            for change in contract.outcomes[0].changes:
                changed.setdefault(change.collection, {})[change.key] = change.after
    return changed


def test_end_states_facts_and_failing_steps_equal_the_reference_cases(suite: Suite, imported: Imported) -> None:
    cases = reference_cases()
    assert set(suite.ids) == set(cases)
    assert len(cases) == 57
    for mark in imported.report.tasks:
        task, case = suite.task(mark.id), cases[mark.id]
        given = {name: bodies for name, bodies in case["changed"].items() if bodies}
        assert list(differences(given, expected_end(task))) == [], mark.id
        facts = [fact for one in task.contracts if isinstance(one, AnswerContract) for fact in one.facts]
        assert facts == case["communicate"], mark.id
        failing = [number for number, step in enumerate(case["steps"], 1) if not step["ok"]]
        assert [step.step for step in mark.failing_steps] == failing, mark.id


def test_what_is_known_to_be_wrong_is_listed(imported: Imported) -> None:
    report = imported.report
    assert [task.id for task in report.idle_passes] == ["retail/tau2/12", "retail/tau2/105"]
    assert [task.id for task in report.unscorable] == ["retail/tau2/57"]
    assert len(report.with_failing_steps) == 10
    assert [task.id for task in report.no_call] == ["retail/tau2/24"]
    assert report.counted == 54


def test_each_reference_completes_its_task(suite: Suite, home: Path) -> None:
    engine = Engine(WithImported(worlds(), home / "templates"), MemoryWorlds())
    tools = engine.describe("retail")
    for task in suite.match(["retail/tau2"]):
        evidence = asyncio.run(rehearse(task, open_script("reference", task), engine, name=task.id))
        completion = examine(task, evidence, tools).score.completion
        assert completion == (standing(task) is not Standing.UNSCORABLE), task.id
