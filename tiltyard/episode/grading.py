"""Grade an episode from its trace and record the outcome (I6, I8)."""

import asyncio
import time
from collections.abc import Sequence

from schemas.base import canonical
from schemas.episode import Digests, End, EpisodeResult, EpisodeSpec, Validity
from schemas.evidence import Evidence
from schemas.exam import Exams
from schemas.grade import Grade
from schemas.slice import Ending, GradeRequest, Summary
from schemas.task import Task
from schemas.tool import ToolSpec, tools_digest
from schemas.world import Owner
from tiltyard.episode.examination import Examination, Sitting
from tiltyard.errors import BadInput, EnvironmentFailed, GraderFailed
from tiltyard.graders import count, grade_episode
from tiltyard.graders.graph import GRADERS, Grader
from tiltyard.ports import Objects, Records, Sandboxes
from tiltyard.sandbox.files import start_of
from tiltyard.sandbox.keeping import fetch
from tiltyard.trace import Trace, trace_digest, unpack

UNFINISHED = {End.CANCELLED, End.TERMINATED}
"""Ends that say nothing about the policy: the trial is missing, and stays in the denominator."""

EXAM_ATTEMPTS = 10
"""So often an examination is tried that the environment keeps from being held; then the outcome says so."""

NO_EXAMS = Exams()


class Examiner:
    """Grades evidence. A grader that fails makes the outcome invalid, never a lost result."""

    def __init__(
        self, objects: Objects, records: Records, sandboxes: Sandboxes, cluster: str, temporal_namespace: str
    ) -> None:
        self._objects = objects
        self._records = records
        self._examination = Examination(sandboxes)
        self._place = (cluster, temporal_namespace)

    async def grade(self, request: GradeRequest, workflow_id: str, attempt: int) -> Summary:
        """Record the outcome; the first one stands.

        ``workflow_id`` is the workflow that grades, ``attempt`` counts its tries from 1. Raises
        ``EnvironmentFailed`` for what a later try may bring.
        """
        result = await self._result(request, workflow_id, attempt)
        standing = await self._records.record(result)
        return Summary(episode_id=standing.episode_id, end=standing.end, total=standing.score.total)

    async def _result(self, request: GradeRequest, workflow_id: str, attempt: int) -> EpisodeResult:
        if request.trace is None:
            return without_evidence(request.spec, request.ending)
        started = time.monotonic()
        trace = await asyncio.to_thread(unpack, await self._objects.get(request.trace))
        owner = Owner(
            cluster=self._place[0],
            temporal_namespace=self._place[1],
            workflow_id=workflow_id,
            first_run_id="",  # any run: the grading workflow may have gone on in another one
        )
        exams = await self._exams(trace, owner, attempt)
        result = await asyncio.to_thread(examine, trace.task, trace.evidence, trace.tools, exams)
        kept = await self._objects.put(canonical(exams)) if exams.exams else ""
        timings = {**request.timings, "grade": round(time.monotonic() - started, 3)}
        return result.model_copy(update={"trace": request.trace, "exams": kept, "timings": timings})

    async def _exams(self, trace: Trace, owner: Owner, attempt: int) -> Exams:
        """What the task's tests say of the files that were left, or why that cannot be known."""
        task, evidence = trace.task, trace.evidence
        driver, sandbox = evidence.spec.sandbox, evidence.sandbox
        valid = validity_of(evidence.ending) is Validity.VALID
        if not (valid and task.hides_tests) or task.sandbox is None or driver is None:
            return NO_EXAMS
        if sandbox is None or not sandbox.snapshot:
            return NO_EXAMS
        sitting = Sitting(evidence.spec.episode_id, driver, owner, attempt)
        try:
            left = await fetch(self._objects, sandbox.snapshot, start_of(task.sandbox))
            return await self._examination.hold(task, left, sitting)
        except (GraderFailed, BadInput) as error:
            return Exams(failed=str(error))
        except EnvironmentFailed as error:
            if attempt < EXAM_ATTEMPTS:
                raise
            return Exams(failed=str(error))


def examine(
    task: Task,
    evidence: Evidence,
    tools: tuple[ToolSpec, ...],
    exams: Exams = NO_EXAMS,
    graders: Sequence[Grader] = GRADERS,
) -> EpisodeResult:
    """The outcome of an episode: a function of its evidence and examinations alone, so it can be graded again."""
    spec, ending, facts = evidence.spec, evidence.ending, evidence.facts
    validity, reason = validity_of(ending), ending.reason
    try:
        if exams.failed:
            raise GraderFailed(exams.failed)
        grade = grade_episode(
            *(task, facts, evidence.turns, ending.end, tools, graders), sandbox=evidence.sandbox, exams=exams.exams
        )
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
        rules=grade.rules,
        measures=grade.measures,
        safety=grade.safety,
        risks=grade.risks,
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
        origin=spec.origin,
        not_restored=evidence.not_restored,
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
        origin=spec.origin,
        digests=Digests(task=spec.task_digest, policy=spec.policy.digest),
    )
