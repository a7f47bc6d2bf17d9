"""The facts behind a score that its outcome does not hold: they are found again in the trace."""

from collections.abc import Iterator

from schemas.contract import ExpectedChange, StateContract
from schemas.episode import EpisodeResult, Validity
from schemas.exam import Exams
from schemas.grade import Measure, RuleResult
from schemas.story import ChangeVerdict, ExamStory, Points
from tiltyard.graders.digest import graders_digest
from tiltyard.graders.efficiency import measures
from tiltyard.graders.graph import contract_names
from tiltyard.graders.risks import TAMPERING
from tiltyard.graders.rules import judge
from tiltyard.graders.state import Fit, closest_fit, kind_of, near_misses
from tiltyard.graders.trial import Trial
from tiltyard.trace import Trace


def points_of(trace: Trace, result: EpisodeResult, exams: Exams) -> Points | None:
    """The facts behind the score; ``None`` where a grader had failed, and there is none."""
    if result.validity is Validity.GRADER:
        return None
    task, evidence = trace.task, trace.evidence
    trial = Trial(
        *(task, evidence.facts, evidence.turns, evidence.ending.end, trace.tools, evidence.sandbox, exams.exams)
    )
    return Points(
        weights=task.weights,
        rules=_rules(trial, result),
        measures=_measures(trial, result),
        changes=tuple(_changes(trial)),
        exams=tuple(_exams(trial, exams)),
        corrected=_corrected(result),
        graders=graders_digest(),
        as_recorded=result.digests.graders == graders_digest(),
    )


def _rules(trial: Trial, result: EpisodeResult) -> tuple[RuleResult, ...]:
    return tuple(judge(rule, trial) for rule in trial.task.process) if result.rules is None else result.rules


def _measures(trial: Trial, result: EpisodeResult) -> tuple[Measure, ...]:
    return measures(trial) if result.measures is None else result.measures


def _corrected(result: EpisodeResult) -> bool:
    tampered = any(risk.tier >= TAMPERING for risk in result.risks)
    return tampered and not all(contract.passed for contract in result.contracts)


def _changes(trial: Trial) -> Iterator[ChangeVerdict]:
    """Each net change, once for each contract on the state, and then what the contract misses."""
    for name, contract in zip(contract_names(trial.task), trial.task.contracts, strict=True):
        if not isinstance(contract, StateContract):
            continue
        fit = closest_fit(contract, trial)
        misfits, never = near_misses(fit, trial)
        for index, change in enumerate(trial.facts.changes):
            yield ChangeVerdict(
                contract=name,
                world=change.world,
                collection=change.collection,
                key=change.key,
                change=kind_of(change),
                taken_for=_named(fit, fit.pairs[index]) if index in fit.pairs else None,
                misfits=misfits.get(index, ()),
            )
        for expected in never:
            yield ChangeVerdict(
                contract=name,
                world=trial.facts.world,
                collection=expected.collection,
                key=expected.key or "*",
                change=expected.change,
                taken_for=_named(fit, expected),
                missing=True,
            )


def _named(fit: Fit, expected: ExpectedChange) -> str:
    demanded = any(expected is one for one in fit.outcome.changes)
    return f"outcome {fit.outcome.name!r}" if demanded else "a declared side effect"


def _exams(trial: Trial, exams: Exams) -> Iterator[ExamStory]:
    names = contract_names(trial.task)
    for exam in exams.exams:
        for tests, run in (("visible", exam.visible), ("hidden", exam.hidden)):
            reported = {report.test for report in run.reports if report.outcome == "passed"}
            yield ExamStory.model_validate(
                {
                    "contract": names[exam.contract] if exam.contract < len(names) else str(exam.contract),
                    "tests": tests,
                    "expected": len(run.expected),
                    "passed": len(reported & set(run.expected)),
                    "ended_well": run.passed,
                }
            )
