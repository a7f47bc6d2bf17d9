"""What is kept of an episode, and how each of it is opened: its trace, its examinations, its task."""

import asyncio

from pydantic import ValidationError

from schemas.episode import EpisodeResult, EpisodeSpec
from schemas.exam import Exams
from schemas.task import Task
from tiltyard.episode.tasks import TaskShelf
from tiltyard.errors import BadInput, EnvironmentFailed, InputMissing, ObjectsUnreachable
from tiltyard.ports import Objects
from tiltyard.trace import Trace, unpack


async def trace_of(result: EpisodeResult, objects: Objects) -> Trace:
    """All facts of an episode that has ended. Raises as ``require_trace`` does, and ``InputMissing`` where the
    object holds no trace."""
    data = await require_trace(result, objects)
    try:
        return await asyncio.to_thread(unpack, data)
    except BadInput as error:
        raise _missing("trace", result.trace, result.episode_id, error) from error


async def require_trace(result: EpisodeResult, objects: Objects) -> bytes:
    """The trace as it is stored, which is there and whole.

    Raises ``BadInput`` where no facts were collected, ``InputMissing`` where it is gone or damaged, and
    ``ObjectsUnreachable`` when the store is away.
    """
    if not result.trace:
        why = f"has no trace, for no facts could be collected: {result.end}, {result.reason}"
        raise BadInput(why, field=result.episode_id, fix="run its task again")
    return await _object("trace", result.trace, result.episode_id, objects)


async def exams_of(result: EpisodeResult, objects: Objects) -> Exams:
    """What its tests said, of an outcome that names it. Raises as ``trace_of`` does."""
    data = await _object("exams", result.exams, result.episode_id, objects)
    try:
        return Exams.model_validate_json(data)
    except ValidationError:
        raise _missing("exams", result.exams, result.episode_id, "holds no examinations") from None


async def task_of(spec: EpisodeSpec, tasks: TaskShelf) -> Task:
    """The task that it was planned with, whatever has become of its file. Raises ``InputMissing`` where it is gone
    or damaged, and ``ObjectsUnreachable``."""
    try:
        return await tasks.load(spec.task_digest)
    except ObjectsUnreachable:
        raise
    except (EnvironmentFailed, ValidationError) as error:
        raise _missing("task", spec.task_digest, spec.episode_id, error) from error


async def _object(part: str, name: str, episode_id: str, objects: Objects) -> bytes:
    try:
        return await objects.get(name)
    except ObjectsUnreachable:
        raise
    except EnvironmentFailed as error:
        raise _missing(part, name, episode_id, error) from error


def _missing(part: str, name: str, episode_id: str, why: object) -> InputMissing:
    return InputMissing(f"the {part} {name} of {episode_id}", str(why))


def no_such_episode(episode_id: str) -> BadInput:
    """What whoever names an episode is told that was never planned here."""
    return BadInput(
        "there is no such episode", field=episode_id, fix="`tiltyard episodes list` names those there are"
    )


def not_ended(episode_id: str) -> BadInput:
    """What is said of an episode that goes on, where one is needed that has ended."""
    return BadInput(
        "has not ended", field=episode_id, fix=f"`tiltyard episodes watch {episode_id}` waits for its end"
    )
