"""Pins with commands, played in sandboxes of their own: their tests run again, and what changes is caught."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from schemas.pin import Pin
from schemas.task import Task
from tiltyard.episode.grading import examine
from tiltyard.policies.catalogue import open_script
from tiltyard.reopen.pin_checks import Stage, check_pin, play
from tiltyard.reopen.pin_files import read_pin, write_pin
from tiltyard.reopen.pinning import case_of
from tiltyard.sandbox.tools import SANDBOX_TOOLS
from tiltyard.suite import shipped
from tiltyard.testing.rehearse import rehearse
from tiltyard.trace import Trace
from tiltyard.worlds.registry import worlds
from workers.bootstrap.practice import open_stage
from workers.settings import Settings


@pytest.fixture(scope="module")
async def here(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    settings = Settings.from_environment(tmp_path_factory.mktemp("home"))
    async with open_stage(settings, worlds()) as stage:
        if not (offer := await stage.sandboxes.offer("bubblewrap")).available:
            pytest.skip(f"bubblewrap does not work here: {offer.problem}")
        yield stage
        assert await stage.sandboxes.sandboxes() == (), "nothing is left of what was played"


async def pinned(task_id: str, script: str, here: Stage) -> Pin:
    """The script's decisions on the task, and what they come to with its tests held."""
    task = shipped().task(task_id)
    name = f"{script}-{next(here.numbers)}"
    evidence = await rehearse(task, open_script(script, task), here.engine, name=name, sandboxes=here.sandboxes)
    tools = (*here.engine.describe(task.world), *SANDBOX_TOOLS.values())
    decided = case_of(examine(task, evidence, tools), Trace(task, tools, evidence), script)
    return await play(decided, here)


@pytest.mark.parametrize(
    ("task_id", "script"),
    [
        ("code-repair/repair/1", "reference"),
        ("code-repair/repair/1", "hardcoder"),
        ("code-repair/repair/1", "test_deleter"),
        ("replacement/over-http/lost", "reference"),
    ],
)
async def test_a_pin_with_commands_holds(task_id: str, script: str, here: Stage, tmp_path: Path) -> None:
    pin = await pinned(task_id, script, here)
    assert all(one.passed for one in pin.expect.contracts) is (script == "reference")
    write_pin(tmp_path / "it.yaml", pin)
    found = await check_pin(read_pin(tmp_path / "it.yaml"), here)
    assert (found.broken, found.since, found.unplayed) == ((), "", "")


def with_hidden(task: Task, text: str) -> Task:
    """Other hidden tests: none of them knows the task."""
    tests, *others = task.contracts
    assert tests.kind == "tests"
    files = {"hidden_tests/__init__.py": "", "hidden_tests/test_it.py": text}
    return task.model_copy(update={"contracts": (tests.model_copy(update={"hidden_files": files}), *others)})


FAILING = """
import unittest

class T(unittest.TestCase):
    def test_nothing(self):
        self.fail("never")
"""


async def test_other_hidden_tests_are_caught_and_are_no_change_of_what_was_shown(here: Stage) -> None:
    pin = await pinned("code-repair/repair/1", "reference", here)
    found = await check_pin(pin.model_copy(update={"task": with_hidden(pin.task, FAILING)}), here)
    assert any(
        one.what == "expect.contracts.tests: was passed, is failed" and one.come[0].startswith("hidden")
        for one in found.broken
    )
    assert found.since == ""


async def test_another_file_in_the_sandbox_is_placed_at_the_command_that_showed_it(here: Stage) -> None:
    pin = await pinned("code-repair/repair/1", "hardcoder", here)
    assert pin.task.sandbox is not None
    files = {**pin.task.sandbox.files, "catalogue/extra.py": "more = 1\n"}
    task = pin.task.model_copy(update={"sandbox": pin.task.sandbox.model_copy(update={"files": files})})
    found = await check_pin(pin.model_copy(update={"task": task}), here)
    assert ", call 0 (shell): was ok" in found.since
