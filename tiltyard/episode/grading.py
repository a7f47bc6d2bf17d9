"""Grade an episode from its trace and record the outcome (I6, I8)."""

import time

from schemas.episode import Digests, End, EpisodeResult, EpisodeSpec, Validity
from schemas.evidence import Evidence
from schemas.grade import Grade
from schemas.slice import Ending, GradeRequest, Summary
from schemas.task import Task
from schemas.tool import ToolSpec, tools_digest
from tiltyard.errors import GraderFailed
from tiltyard.graders import count, grade_episode
from tiltyard.ports import Objects, Records
from tiltyard.trace import trace_digest, unpack

UNFINISHED = {End.CANCELLED, End.TERMINATED}
"""Ends that say nothing about the policy: the trial is missing, and stays in the denominator."""


class Examiner:
    """Grades evidence. A grader that fails makes the outcome invalid, never a lost result."""

    def __init__(self, objects: Objects, records: Records) -> None:
        self._objects = objects
        self._records = records

    async def grade(self, request: GradeRequest) -> Summary:
        """Record the outcome; the first one stands."""
        result = await self._result(request)
        standing = await self._records.record(result)
        return Summary(episode_id=standing.episode_id, end=standing.end, total=standing.score.total)

    async def _result(self, request: GradeRequest) -> EpisodeResult:
        if request.trace is None:
            return without_evidence(request.spec, request.ending)
        started = time.monotonic()
        trace = unpack(await self._objects.get(request.trace))
        result = examine(trace.task, trace.evidence, trace.tools)
        timings = {**request.timings, "grade": round(time.monotonic() - started, 3)}
        return result.model_copy(update={"trace": request.trace, "timings": timings})


def examine(task: Task, evidence: Evidence, tools: tuple[ToolSpec, ...]) -> EpisodeResult:
    """The outcome of an episode: a function of its evidence alone, so it can be graded again."""
    spec, ending, facts = evidence.spec, evidence.ending, evidence.facts
    validity, reason = validity_of(ending), ending.reason
    try:
        grade = grade_episode(task, facts, evidence.turns, ending.end, tools)
    except GraderFailed as error:
        grade, validity, reason = Grade(), Validity.GRADER, str(error)
    return EpisodeResult(
        episode_id=spec.episode_id,
        task=spec.task_id,
        policy=spec.policy.target,
        seed=spec.seed,
        end=ending.end,
        validity=validity,
        reason=reason,
        score=grade.score,
        contracts=grade.contracts,
        safety=grade.safety,
        drain=evidence.drain,
        counts=count(facts, evidence.turns, task.limits.tool_calls),
        digests=Digests(
            trace=trace_digest(task, facts, evidence.turns, ending.end, evidence.sandbox),
            tools=facts.tools_digest if task.sandbox is None else tools_digest(tools),
            graders=grade.graders_digest,
            task=spec.task_digest,
            policy=spec.policy.digest,
            template=facts.template_digest,
        ),
        sandbox=spec.sandbox,
        answer=next((turn.decision.submit for turn in reversed(evidence.turns)), None),
    )


def validity_of(ending: Ending) -> Validity:
    """Whether an ending says something about the policy."""
    if ending.end is End.ENVIRONMENT_ERROR:
        return Validity.ENVIRONMENT
    return Validity.MISSING if ending.end in UNFINISHED else Validity.VALID


def without_evidence(spec: EpisodeSpec, ending: Ending) -> EpisodeResult:
    """The outcome of an episode of which no facts could be collected: recorded all the same, and not valid."""
    validity = validity_of(ending)
    return EpisodeResult(
        episode_id=spec.episode_id,
        task=spec.task_id,
        policy=spec.policy.target,
        seed=spec.seed,
        end=ending.end,
        validity=Validity.ENVIRONMENT if validity is Validity.VALID else validity,
        reason=ending.reason or "no evidence could be collected",
        sandbox=spec.sandbox,
        digests=Digests(task=spec.task_digest, policy=spec.policy.digest),
    )
