"""Grading again: the stored facts of an episode, judged by the graders of today.

Nothing is run: not the episode, not its tests, whose outcomes are stored facts. Nothing recorded is changed.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from schemas.base import canonical
from schemas.contract import TestsContract
from schemas.episode import EpisodeResult, Validity
from schemas.exam import Exams
from schemas.grade import ContractResult, Measure, RuleResult
from schemas.regrade import Fact, Judgement, Part, Regrade
from schemas.task import Task
from tiltyard.episode.grading import examine, validity_of
from tiltyard.errors import BadInput
from tiltyard.graders.graph import GRADERS, Grader
from tiltyard.ports import Objects
from tiltyard.reopen.kept import exams_of, trace_of
from tiltyard.trace import Trace

Said = Mapping[str, tuple[str, ...]]
"""What is said of each thing of a part, by its name."""


async def stored_facts(recorded: EpisodeResult, objects: Objects) -> tuple[Trace, Exams]:
    """What the episode was judged by: its trace, and what its tests said. Raises as ``trace_of`` does."""
    trace = await trace_of(recorded, objects)
    return trace, await exams_of(recorded, objects) if recorded.exams else _without_exams(recorded, trace)


def _without_exams(recorded: EpisodeResult, trace: Trace) -> Exams:
    """No examinations are stored: either there was nothing to examine, or they could not be held."""
    evidence = trace.evidence
    due = trace.task.hides_tests and validity_of(evidence.ending) is Validity.VALID
    left = evidence.sandbox is not None and bool(evidence.sandbox.snapshot)
    return Exams(failed=recorded.reason) if due and left and recorded.validity is Validity.GRADER else Exams()


def regrade(
    recorded: EpisodeResult,
    trace: Trace,
    exams: Exams,
    graders: Sequence[Grader] = GRADERS,
    then: Task | None = None,
) -> Regrade:
    """The recorded outcome beside what ``graders`` say of the same facts. ``then`` is the task that it was judged
    by, where the trace has been given another one."""
    before = Judgement.of(recorded, (then or trace.task).weights)
    now = examine(trace.task, trace.evidence, trace.tools, exams, graders)
    after = Judgement.of(now, trace.task.weights)
    parts = {part: (tell(before), tell(after)) for part, tell in PARTS.items()}
    return Regrade(
        episode_id=recorded.episode_id,
        task=recorded.task,
        policy=recorded.policy,
        seed=recorded.seed,
        before=before,
        after=after,
        facts=tuple(fact for part, told in parts.items() for fact in _facts(part, *told)),
        untold=tuple(part for part, (was, now) in parts.items() if was is None and now),
    )


def with_task_of_now(trace: Trace, now: Task) -> Trace:
    """The same facts, to be graded by the contracts, rules, references and weights that the task has now.

    The outcome then names that task's digest. Raises ``BadInput`` where that needs facts that were not collected:
    other tests, or other starting rows.
    """
    now, then = Task.model_validate_json(canonical(now)), trace.task  # texts depend on the order of fields
    if _tests(now) != _tests(then):
        raise BadInput("its tests are other ones now", field=now.id, fix="run it again: they have not been held")
    if missing := sorted(set(now.fact_collections) - set(then.fact_collections)):
        raise BadInput(f"no facts were kept of {missing[0]}", field=now.id, fix="run it again")
    task = then.model_copy(update={part: getattr(now, part) for part in GRADED_BY})
    if task == then:  # it keeps the digest of its stored text, which may be of an older form
        return trace
    spec = trace.evidence.spec.model_copy(update={"task_digest": task.digest})
    return replace(trace, task=task, evidence=trace.evidence.model_copy(update={"spec": spec}))


GRADED_BY = ("contracts", "process", "references", "weights")
"""The parts of a task that say how its trials are judged; what happens in them is decided by the others."""


def _tests(task: Task) -> list[tuple[int, TestsContract]]:
    return [(at, one) for at, one in enumerate(task.contracts) if isinstance(one, TestsContract)]


def _facts(part: Part, before: Said | None, after: Said | None) -> Iterator[Fact]:
    if before is None or after is None:
        return
    for name in dict.fromkeys((*before, *after)):
        yield Fact(part=part, name=name, before=before.get(name, ()), after=after.get(name, ()))


def _validity(of: Judgement) -> Said:
    return {"validity": (of.validity.value, of.reason) if of.reason else (of.validity.value,)}


def _score(of: Judgement) -> Said:
    return {name: (f"{value:.6g}",) for name, value in of.score.model_dump().items()}


def _weights(of: Judgement) -> Said | None:
    if of.weights is None:
        return None
    shares = {"C": of.weights.completion, "P": of.weights.process, "E": of.weights.efficiency}
    return {"weights": (", ".join(f"{name} {share:g}" for name, share in shares.items()),)}


def _contracts(of: Judgement) -> Said:
    return {one.name: _verdict(one) for one in of.contracts}


def _verdict(contract: ContractResult) -> tuple[str, ...]:
    return ("passed",) if contract.passed else ("failed", *contract.why)


def _rules(of: Judgement) -> Said | None:
    return None if of.rules is None else {name: _held(of.rules[at]) for at, name in enumerate(_numbered(of.rules))}


def _numbered(rules: Iterable[RuleResult]) -> list[str]:
    """A name for each rule: the second of a name is ``name-2``."""
    names: list[str] = []
    for one in rules:
        names.append(one.rule)
        names[-1] += f"-{names.count(one.rule)}" if names.count(one.rule) > 1 else ""
    return names


def _held(rule: RuleResult) -> tuple[str, ...]:
    if not rule.triggered:
        return ("not triggered",)
    return (f"{'held' if rule.held else 'broken'}, weight {rule.weight:g}", *filter(None, (rule.why,)))


def _measures(of: Judgement) -> Said | None:
    return None if of.measures is None else {one.dimension: _ratio(one) for one in of.measures}


def _ratio(one: Measure) -> tuple[str, ...]:
    return (f"{one.used} used, {one.reference} by the reference",)


def _safety(of: Judgement) -> Said:
    return _gathered((one.kind, one.detail) for one in of.safety)


def _risks(of: Judgement) -> Said:
    return _gathered((f"{one.rule} (tier {one.tier})", one.detail) for one in of.risks)


def _gathered(found: Iterable[tuple[str, str]]) -> Said:
    """Details by what they are of; their order says nothing."""
    gathered: dict[str, list[str]] = {}
    for name, detail in found:
        gathered.setdefault(name, []).append(detail)
    return {name: tuple(sorted(details)) for name, details in gathered.items()}


PARTS: Mapping[Part, Callable[[Judgement], Said | None]] = {
    "validity": _validity,
    "score": _score,
    "weights": _weights,
    "contract": _contracts,
    "rule": _rules,
    "efficiency": _measures,
    "safety": _safety,
    "risk": _risks,
}
"""What is said of each part of a judgement; ``None`` where it was not recorded."""
