"""The score, efficiency, counts, safety, and the graph of graders."""

import threading
from dataclasses import replace
from typing import Any

import pytest

from schemas.contract import DrainContract
from schemas.episode import Counts
from schemas.fault import Fault
from schemas.task import Reference, Step
from tiltyard.errors import GraderFailed
from tiltyard.graders import count, grade_episode, graders_digest
from tiltyard.graders.digest import digest_of_files, grader_files
from tiltyard.graders.efficiency import Figures, efficiency, reference_figures, used
from tiltyard.graders.graph import GRADERS, Findings, Grader, contract_names, run_graph

from .story import TOOLS, Story, task_of
from .test_contracts import ANSWER, RECEIPTS, asked

ORDER: tuple[str, str, None, dict[str, Any]] = ("orders", "O-1", None, {"n": 1})
COSTS = {tool.name: tool for tool in TOOLS}


def steps(*made: dict[str, Any], **more: Any) -> Reference:
    return Reference(steps=tuple(Step.model_validate(one) for one in (*made, {"submit": {}})), **more)


def test_the_total_is_weighted_and_efficiency_counts_only_with_completion() -> None:
    done = Story().call("look").call("order", ORDER, operation_id="a").submit()
    score = done.grade(task_of(RECEIPTS)).score
    assert (score.completion, score.process, score.efficiency, score.total) == (1, 1, 1, 1)
    half = Story().call("look").call("look").call("look").call("order", ORDER, operation_id="a").submit()
    score = half.grade(task_of(RECEIPTS)).score
    assert score.efficiency == round((2 / 4 + 35 / 40) / 2, 6)
    assert score.total == round(0.55 + 0.25 + 0.2 * score.efficiency, 6)
    undone = Story().call("look").submit().grade(task_of(RECEIPTS)).score
    assert (undone.completion, undone.efficiency, undone.total) == (0, 0, 0.25)


def test_one_failed_contract_is_no_completion() -> None:
    grade = asked().submit(outcome="refused").grade(task_of(RECEIPTS, ANSWER, DrainContract()))
    assert [(one.name, one.passed) for one in grade.contracts] == [
        ("receipts", True),
        ("answer", False),
        ("drain", True),
    ]
    assert grade.score.completion == 0


def test_a_family_sets_its_weights() -> None:
    task = task_of(RECEIPTS, weights={"completion": 0.6, "process": 0.3, "efficiency": 0.1})
    assert Story().call("look").submit().grade(task).score.total == 0.3


def test_contracts_of_one_kind_have_names_of_their_own() -> None:
    named = RECEIPTS.model_copy(update={"name": "once"})
    assert contract_names(task_of(RECEIPTS, named, RECEIPTS)) == ("receipts", "once", "receipts-2")


@pytest.mark.parametrize(
    ("reference", "faults", "figures"),
    [
        (steps({"tool": "look"}, {"tool": "order"}), (), Figures(2, 0, 35)),
        (steps({"tool": "wait", "arguments": {"seconds": 60}}), (), Figures(1, 0, 60)),
        (steps({"tool": "wait", "arguments": {"seconds": "${steps.a}"}}, {"tool": "look"}), (), Figures(2, 0, 0)),
        (steps({"tool": "look"}, tokens=70, virtual_s=99), (), Figures(1, 70, 99)),
        (steps({"tool": "look"}), (Fault(tool="look", kind="delay", delay_s=100),), Figures(1, 0, 105)),
        (
            steps({"tool": "look"}, {"tool": "look"}),
            (Fault(tool="look", kind="delay", delay_s=100, nth=2),),
            Figures(2, 0, 110),
        ),
        (
            steps({"tool": "look"}, {"tool": "look"}),
            (Fault(tool="look", kind="delay", delay_s=100, from_s=5, until_s=6),),
            Figures(2, 0, 110),
        ),
        (steps({"tool": "look"}), (Fault(tool="look", kind="commit_then_drop"),), Figures(1, 0, 5)),
    ],
)
def test_what_a_reference_uses(reference: Reference, faults: tuple[Fault, ...], figures: Figures) -> None:
    task = task_of(RECEIPTS, references=(reference,), faults=faults)
    assert reference_figures(reference, task, COSTS) == figures


def test_efficiency_is_taken_from_the_best_reference_and_leaves_out_what_is_not_used() -> None:
    long = steps(*({"tool": "look"} for _ in range(4)), virtual_s=1000)
    story = Story().call("look").call("look").call("look").call("look")
    assert efficiency(story.trial(task_of(RECEIPTS, references=(steps({"tool": "look"}), long)))) == 1
    assert efficiency(story.trial(task_of(RECEIPTS, references=(steps({"tool": "look"}, tokens=9),)))) == (
        (1 / 4 + 5 / 40) / 2
    )
    assert efficiency(Story().give_up().trial(task_of(RECEIPTS))) == 0


def tokens_spent(tokens: int) -> Story:
    story = Story().call("look")
    story.turns[-1] = story.turns[-1].model_copy(
        update={"decision": story.turns[-1].decision.model_copy(update={"tokens": tokens})}
    )
    return story


@pytest.mark.parametrize(
    ("story", "references", "expected"),
    [
        (Story().call("look").call("look").submit(), (steps(),), 1),
        (Story().submit(), (steps(),), 1),
        (Story().call("look").submit(), (steps(tokens=9),), 1),
        (tokens_spent(18), (steps(tokens=9),), 1 / 2),
        (Story().submit(), (steps({"tool": "look"}),), 0),
        (Story().submit(), (steps({"tool": "look"}), steps()), 1),
        (Story().call("look").call("look").submit(), (steps(), steps({"tool": "look"})), (1 / 2 + 5 / 20) / 2),
    ],
    ids=[
        "nothing to hold the calls against",
        "as the reference",
        "a script against tokens alone",
        "tokens alone",
        "no call where calls are needed",
        "no call where one reference makes none",
        "the other reference is the measure",
    ],
)
def test_a_reference_that_uses_nothing_of_a_dimension_is_no_measure_of_it(
    story: Story, references: tuple[Reference, ...], expected: float
) -> None:
    """Or nobody could have the full score, the reference included."""
    assert efficiency(story.trial(task_of(RECEIPTS, references=references))) == pytest.approx(expected)


def test_the_settling_wait_is_the_harness_and_not_the_agent() -> None:
    story = Story().call("look").settle(3600).submit()
    assert used(story.trial(task_of(RECEIPTS))) == Figures(1, 0, 10)
    assert count(story.facts, story.turns, 200) == Counts(turns=2, tool_calls=1)


def test_duplicates_are_effects_that_differ_in_the_operation_id_only() -> None:
    story = Story().call("order", ORDER, n=1, operation_id="a").call("order", ("orders", "O-2", None, {}), n=2)
    assert count(story.facts, story.turns, 200) == Counts(turns=2, tool_calls=2, effects=2)
    story.call("order", ("orders", "O-3", None, {}), n=1, operation_id="b").call("order", n=1)
    assert count(story.facts, story.turns, 200) == Counts(turns=4, tool_calls=4, effects=3, duplicates=1)
    (finding,) = story.grade(task_of(RECEIPTS)).safety
    assert finding.kind == "duplicate_effect"
    assert "(turn 2, call 0)" in finding.detail


def test_a_grader_that_raises_is_named() -> None:
    def broken(*_: object) -> Findings:
        raise ZeroDivisionError("a bug")

    graders = [replace(one, run=broken) if one.name == "efficiency" else one for one in GRADERS]
    story = Story().give_up()
    with pytest.raises(GraderFailed, match="the grader efficiency raised ZeroDivisionError: a bug"):
        grade_episode(task_of(RECEIPTS), story.facts, story.turns, story.end, TOOLS, graders)


def test_independent_graders_run_at_the_same_time_and_dependent_ones_after_what_they_need() -> None:
    together = threading.Barrier(2, timeout=30)

    def meet(*_: object) -> Findings:
        together.wait()
        return Findings(figures={"met": 1})

    def after(_: object, found: Findings) -> Findings:
        return Findings(figures={"after": found.figures["met"]})

    graders = (Grader("a", meet), Grader("b", meet), Grader("c", after, needs=("a", "b")))
    done = run_graph(graders, Story().give_up().trial(task_of(RECEIPTS)))
    assert done["c"].figures == {"after": 1}


def test_every_grade_names_the_graders_that_made_it() -> None:
    grade = Story().give_up().grade(task_of(RECEIPTS))
    assert grade.graders_digest == graders_digest()
    assert grade.graders_digest.startswith("sha256:")


def test_the_graders_digest_differs_when_any_grader_does() -> None:
    files = {path.name: path.read_bytes() for path in grader_files()}
    assert {"rules.py", "state.py", "contract.py", "grade.py"} <= files.keys()
    assert digest_of_files(files) == graders_digest()
    for name, source in files.items():
        assert digest_of_files({**files, name: source + b"\n# changed"}) != graders_digest()
