"""Episodes that stories are told of: rehearsed ones of shipped tasks, and such as are told call by call."""

import asyncio
from functools import cache

from schemas.episode import EpisodeResult, EpisodeSpec, PolicySpec
from schemas.evidence import Evidence
from schemas.exam import Exams
from schemas.journal import TurnRecord
from schemas.slice import Ending
from schemas.story import Story
from schemas.task import Task
from schemas.world import DrainReport
from tests.unit.graders.story import TOOLS
from tests.unit.graders.story import Story as Calls
from tiltyard.episode.grading import NO_EXAMS, examine
from tiltyard.policies.catalogue import open_script
from tiltyard.reopen.story import tell
from tiltyard.suite import shipped
from tiltyard.testing.memory_worlds import MemoryWorlds
from tiltyard.testing.rehearse import rehearse
from tiltyard.trace import Trace
from tiltyard.worlds.engine import Engine
from tiltyard.worlds.registry import worlds


@cache
def played(task_id: str, policy: str) -> tuple[Trace, EpisodeResult]:
    """A rehearsed episode of a shipped task."""
    task, engine = shipped().task(task_id), Engine(worlds(), MemoryWorlds())
    evidence = asyncio.run(rehearse(task, open_script(policy, task), engine, name="e-1"))
    trace = Trace(task, engine.describe(task.world), evidence)
    return trace, examine(task, evidence, trace.tools)


def story_of(task_id: str, policy: str) -> Story:
    return tell(*played(task_id, policy))


def traced(calls: Calls, task: Task, **evidence: object) -> Trace:
    """The trace of an episode that is told call by call."""
    spec = EpisodeSpec(
        episode_id="episode",
        task_id=task.id,
        task_digest=task.digest,
        world=task.world,
        policy=PolicySpec(target="told"),
        limits=task.limits,
    )
    plain = {"spec": spec, "ending": Ending.of(calls.end), "turns": tuple(calls.turns), "facts": calls.facts}
    return Trace(task, TOOLS, Evidence.model_validate({**plain, "drain": DrainReport(), **evidence}))


def told(trace: Trace, exams: Exams = NO_EXAMS) -> Story:
    return tell(trace, graded(trace, exams), exams)


def graded(trace: Trace, exams: Exams = NO_EXAMS) -> EpisodeResult:
    return examine(trace.task, trace.evidence, trace.tools, exams)


def left_open(record: TurnRecord) -> TurnRecord:
    """The turn as it is while its calls are in flight."""
    return record.model_copy(update={"observations": None})
