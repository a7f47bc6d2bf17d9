"""What a task may expose of its world, and who says no."""

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from pydantic import ValidationError

from ops.cli.main import program
from schemas.sandbox import SandboxPlan
from schemas.task import Task
from tests.unit.suite.test_check import GOOD
from tiltyard.errors import BadInput
from tiltyard.sandbox.tools import inside_tools, world_tools
from tiltyard.suite import check_task
from tiltyard.testing.tally_world import TALLY


def exposing(exposes: dict[str, Any], **fields: Any) -> Task:
    return Task.model_validate({**GOOD, "sandbox": {"exposes": exposes}, **fields})


@pytest.mark.parametrize("name", ["", "Desk", "1desk", "de.sk", "de_sk", "-desk", "d" * 32, "desk.world"])
def test_a_name_is_one_part_of_a_host_s(name: str) -> None:
    with pytest.raises(ValidationError, match="exposes"):
        SandboxPlan.model_validate({"exposes": {name: ["add"]}})


def test_a_service_without_tools_is_none() -> None:
    with pytest.raises(ValidationError, match="exposes"):
        SandboxPlan.model_validate({"exposes": {"desk": []}})


def test_waiting_is_the_agent_s_alone() -> None:
    with pytest.raises(ValidationError, match=r"sandbox.exposes.desk: wait is the agent's alone; take it out"):
        exposing({"desk": ["add", "wait"]})


def test_tools_are_the_world_s_own() -> None:
    found = check_task(exposing({"desk": ["add", "adds"], "box": ["shell"]}), TALLY)
    assert [one.field for one in found] == [
        "tally/apples/1: sandbox.exposes.desk.1",
        "tally/apples/1: sandbox.exposes.box.0",
    ]
    assert "add" in found[0].fix
    assert "add" in found[1].fix
    assert "wait" not in found[1].fix, "which is refused there"


def test_what_is_exposed_may_be_graded_and_need_not_be_offered_to_the_agent() -> None:
    task = exposing({"desk": ["add", "read"], "looks": ["read"]}, tools=["shell", "wait"])
    problems = check_task(task.model_copy(update={"references": ()}), TALLY)
    assert problems == ()
    assert (world_tools(task), inside_tools(task)) == (("wait",), ("add", "read"))


def test_a_driver_without_a_network_of_its_own_is_refused_before_anything_starts(tmp_path: Path) -> None:
    command = ["run", "replacement/over-http/lost", "--policy", "reference", "--sandbox", "unsafe-local"]
    ended = CliRunner().invoke(program, [*command, "--home", str(tmp_path)])
    assert isinstance(ended.exception, BadInput)
    assert "has no network of its own, and replacement/over-http/lost serves" in str(ended.exception)
    assert list(tmp_path.iterdir()) == []
