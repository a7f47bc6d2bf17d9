"""Checks of tasks against their world: each kind of mistake is found and named; what is shipped has none."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from schemas.base import canonical
from schemas.task import Task
from tiltyard.errors import BadInput
from tiltyard.references import expressions, resolve, step_of
from tiltyard.suite import check_suite, check_task, load_suite, shipped
from tiltyard.suite.practice import practise, stage
from tiltyard.testing.tally_world import TALLY
from tiltyard.worlds.registry import worlds

GOOD: dict[str, Any] = {
    "id": "tally/apples/1",
    "world": "tally",
    "instruction": "Add 3 apples and say how many there are.",
    "contracts": [
        {
            "kind": "state",
            "outcomes": [
                {"changes": [{"collection": "tallies", "key": "apples", "change": "updated", "fields": {"total": 3},
                              "may_change": ["amounts"]}]}
            ],
        },
        {"kind": "receipts", "tool": "add", "at_least": 1},
        {"kind": "answer", "accept": [{"total": 3}], "evidence": {"total": ["add", "read"]}},
        {"kind": "drain", "idle_passes": True},
    ],
    "process": [{"rule": "at_most", "call": {"tool": "add"}}],
    "references": [
        {
            "steps": [
                {"name": "sum", "tool": "add", "arguments": {"name": "apples", "amount": 3, "operation_id": "a"}},
                {"tool": "wait", "arguments": {"seconds": 5}},
                {"submit": {"total": "${steps.sum.total}"}},
            ]
        }
    ],
}  # fmt: skip


STAGE = stage({"tally": TALLY})


def task(edit: Callable[[dict[str, Any]], object] = lambda _: None) -> Task:

    fields = json.loads(canonical(GOOD))
    edit(fields)
    return Task.model_validate(fields)


def step(fields: dict[str, Any], index: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = fields["references"][0]["steps"][index]
    return found


def change(fields: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = fields["contracts"][0]["outcomes"][0]["changes"][0]
    return found


def test_a_sound_task_has_no_problems() -> None:
    assert check_task(task(), TALLY) == ()
    assert practise(task(), STAGE) == ()


@pytest.mark.parametrize(
    ("edit", "field", "says"),
    [
        (lambda t: t.update(tools=["ad"]), "tools.0", "did you mean add"),
        (lambda t: t.update(tools=["read", "wait"]), "contracts.1.tool", "tools has no tool 'add'"),
        (lambda t: t.update(faults=[{"tool": "adds", "kind": "commit_then_drop"}]), "faults.0.tool", "adds"),
        (lambda t: t.update(polling_tools=["reed"]), "polling_tools.0", "did you mean read"),
        (lambda t: t["process"][0]["call"].update(tool="subtract"), "process.0.call.tool", "subtract"),
        (lambda t: t["contracts"][2].update(looked_up=["peek"]), "contracts.2.looked_up", "peek"),
        (lambda t: t["contracts"][2]["evidence"].update(total=["sum"]), "contracts.2.evidence.total", "sum"),
        (lambda t: t.update(template={"params": {"size": -1}}), "template.params.size", "give 0 or more"),
        (lambda t: t.update(template={"name": "empty"}), "template.name", "use default or jobs"),
        (lambda t: change(t).update(collection="tally"), "outcomes.0.changes.0.collection", "did you mean tallies"),
        (lambda t: change(t).update(key="aples"), "outcomes.0.changes.0.key", "did you mean apples"),
        (lambda t: step(t).update(tool="plus"), "references.0.steps.0.tool", "plus"),
        (lambda t: step(t)["arguments"].update(amount=9999), "references.0.steps.0.arguments.amount", "1000"),
        (lambda t: step(t)["arguments"].update(n=1), "references.0.steps.0.arguments.n", "not permitted"),
        (lambda t: step(t, 1)["arguments"].update(seconds=0), "steps.1.arguments.seconds", "greater than"),
        (lambda t: step(t).update(name="summ"), "steps.2: ${steps.sum.total}", "did you mean summ"),
        (lambda t: step(t, 2)["submit"].update(x="${sum.total}"), "steps.2: ${sum.total}", "steps.NAME.PATH"),
        (lambda t: step(t, 1).update(name="sum"), "references.0.steps.1.name", "two steps are named 'sum'"),
        (lambda t: t["references"][0]["steps"].pop(), "references.0.steps.1", "last step calls a tool"),
        (lambda t: t["references"][0]["steps"].insert(0, {"give_up": "no"}), "steps.0", "steps follow"),
    ],
)
def test_a_mistake_is_found_and_named(edit: Callable[[dict[str, Any]], object], field: str, says: str) -> None:
    problems = check_task(task(edit), TALLY)
    assert problems[0].field.startswith("tally/apples/1: ")
    assert field in problems[0].field
    assert says in str(problems[0])


def test_arguments_that_only_a_run_can_fill_in_are_not_judged() -> None:
    def late(fields: dict[str, Any]) -> None:
        step(fields, 1)["arguments"] = {"seconds": "${steps.sum.total}"}

    assert check_task(task(late), TALLY) == ()
    assert practise(task(late), STAGE) == ()


@pytest.mark.parametrize(
    ("edit", "field", "says"),
    [
        (lambda t: t["contracts"][0].update(idle_passes=True), "contracts.0.idle_passes", "set it to false"),
        (lambda t: t["contracts"][3].update(idle_passes=False), "contracts.3.idle_passes", "set it to true"),
        (
            lambda t: t.update(contracts=[{"kind": "receipts", "tool": "add"}]),
            "contracts",
            "doing nothing completes the task",
        ),
        (lambda t: step(t)["arguments"].update(amount=4), "references.0", "total is 4, not 3"),
        (lambda t: step(t)["arguments"].update(name="melons"), "references.0", "unexpected change: tallies/melons"),
        (lambda t: t["process"][0]["call"].update(tool="wait", arguments={"seconds": 5}), "", ""),
        (lambda t: t["process"].append({"rule": "forbid", "call": {"tool": "wait"}}), "references.0", "breaks a"),
    ],
)
def test_what_only_playing_shows(edit: Callable[[dict[str, Any]], object], field: str, says: str) -> None:
    problems = practise(task(edit), STAGE)
    assert bool(problems) == bool(says)
    if says:
        assert any(field in one.field and says in str(one) for one in problems), problems


def test_a_reference_without_a_call_is_told_unless_its_source_is_known_to_be_so() -> None:
    def silent(fields: dict[str, Any]) -> None:
        fields.update(process=[], contracts=[{"kind": "answer", "accept": [{"total": 3}]}])
        fields["references"] = [{"steps": [{"submit": {"total": 3}}]}]

    (problem,) = practise(task(silent), STAGE)
    assert "the reference calls no tool, so its own process is 0 (have it look up what it submits)" in str(problem)
    assert practise(task(silent).model_copy(update={"metadata": {"no_call": True}}), STAGE) == ()


def test_what_is_shipped_has_no_problems() -> None:
    assert check_suite(shipped(), worlds()) == ()
    assert len(shipped().ids) >= 24


def test_a_world_that_is_not_there_is_named(tmp_path: Path) -> None:

    (tmp_path / "tally").mkdir()
    fields = {key: value for key, value in GOOD.items() if key != "id"}
    text = json.dumps({**fields, "family": "apples", "variants": {"1": None}})
    (tmp_path / "tally" / "apples.yaml").write_text(text)
    (problem,) = check_suite(load_suite(tmp_path), {"talley": TALLY})
    assert str(problem) == "tally/apples/1: world: no such world (did you mean talley?)"
    assert check_suite(load_suite(tmp_path), {"tally": TALLY}) == ()


STEPS: dict[str, Any] = {"order": {"id": "O-1", "lines": [{"n": 2}]}, "text": "hi"}


@pytest.mark.parametrize(
    ("value", "resolved"),
    [
        ("${steps.order.id}", "O-1"),
        ("${ steps.order.lines.0.n }", 2),
        ("no ${steps.order.id}: ${steps.order.lines}", 'no O-1: [{"n":2}]'),
        ("${steps.text}", "hi"),
        ("$${steps.text} costs $5", "${steps.text} costs $5"),
        ({"a": ["${steps.text}", 1, None]}, {"a": ["hi", 1, None]}),
    ],
)
def test_run_time_expressions(value: Any, resolved: Any) -> None:
    assert resolve(value, STEPS) == resolved


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("${steps.odrer.id}", "no earlier step is named 'odrer'"),
        ("${steps.order.di}", "no 'di' in what the step was shown"),
        ("${steps.order.lines.1}", "no '1'"),
        ("${order.id}", "write ${steps.NAME.PATH}"),
        ("${steps}", "write ${steps.NAME.PATH}"),
        ("${}", "write ${steps.NAME.PATH}"),
    ],
)
def test_a_run_time_expression_without_a_value_is_named(value: str, says: str) -> None:
    with pytest.raises(BadInput) as refused:
        resolve(value, STEPS)
    assert says in str(refused.value)
    assert refused.value.field == value


def test_expressions_are_found_anywhere() -> None:
    assert list(expressions({"a": ["x ${steps.a.b} ${steps.c}", "$${steps.d}"]})) == ["steps.a.b", "steps.c"]
    assert step_of("steps.a.b") == "a"
