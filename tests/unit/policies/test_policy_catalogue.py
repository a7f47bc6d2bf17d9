"""The shipped scripts by name."""

from pathlib import Path

import pytest

from schemas.task import Reference, Step, Task
from schemas.view import Budgets, View
from tiltyard.errors import BadPolicy
from tiltyard.policies.catalogue import SCRIPTS, open_script
from tiltyard.suite import shipped

TASK = shipped().task("replacement/reply-lost/1")


def first_view(task: Task) -> View:
    return View(instruction=task.instruction, tools=(), budgets=Budgets(turns=9, tool_calls=9), seed=0, turn=0)


def test_the_scripts_that_tiltyard_promises_are_there_and_described() -> None:
    promised = (
        "reference reconcile same_key_retry handoff honest_refusal new_id_retry claim_success do_nothing "
        "unapproved_write late_callback nohup_writer test_deleter exit_zero conftest_hook hardcoder"
    )
    assert list(SCRIPTS) == promised.split()
    documented = (Path(__file__).parents[3] / "docs" / "policies.md").read_text()
    for name, script in SCRIPTS.items():
        assert script.description
        assert f"`{name}`" in documented


def test_a_script_that_needs_a_sandbox_refuses_a_task_without_one() -> None:
    needing = [name for name, script in SCRIPTS.items() if script.needs_sandbox]
    assert needing == ["nohup_writer", "test_deleter", "exit_zero", "conftest_hook", "hardcoder"]
    for name in needing:
        open_script(name, shipped().task("code-repair/repair/1"))
        with pytest.raises(BadPolicy, match="has none"):
            open_script(name, TASK)


def test_only_the_reference_needs_the_solution() -> None:
    assert [name for name, script in SCRIPTS.items() if script.needs_solution] == ["reference"]


@pytest.mark.parametrize(
    ("name", "hint"), [("reconcil", "reconcile"), ("handoff:x", "handoff"), ("", "do_nothing"), ("zzz", "known:")]
)
def test_an_unknown_script_is_answered_with_the_known_ones(name: str, hint: str) -> None:
    with pytest.raises(BadPolicy, match=hint) as caught:
        open_script(name, TASK)
    assert caught.value.field == "policy"


async def test_a_reference_is_chosen_by_name() -> None:
    """The first one without a name."""
    steps = {name: Step(give_up=f"as {name} does") for name in ("one", "two")}
    references = tuple(Reference(name=name, steps=(step,)) for name, step in steps.items())
    task = TASK.model_copy(update={"references": references})
    for target, name in [("reference", "one"), ("reference:one", "one"), ("reference:two", "two")]:
        assert (await open_script(target, task).act(first_view(task))).give_up == f"as {name} does"
    with pytest.raises(BadPolicy, match="one, two"):
        open_script("reference:three", task)


async def test_a_reference_that_cannot_go_on_says_why() -> None:
    steps = (Step(tool="look", arguments={"at": "${steps.nothing.here}"}), Step(give_up="end"))
    task = TASK.model_copy(update={"references": (Reference(steps=steps),)})
    decision = await open_script("reference", task).act(first_view(task))
    assert "no earlier step is named 'nothing'" in (decision.give_up or "")
