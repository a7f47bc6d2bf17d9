"""What an episode has other than the one it was made from, and what a script does not know of its first turns."""

from itertools import takewhile

from schemas.base import JsonObject, JsonValue
from schemas.episode import EpisodeSpec, PolicySpec
from schemas.replay import Differing
from schemas.task import Task
from tiltyard.episode.progress import Progress
from tiltyard.episode.tasks import TaskShelf
from tiltyard.errors import BadPolicy, InputMissing, ObjectsUnreachable
from tiltyard.policies.catalogue import open_script
from tiltyard.policies.following import Follower
from tiltyard.policies.script import ScriptPolicy
from tiltyard.ports import Records
from tiltyard.reopen.conditions import faults_told, in_words, leaves_that_differ
from tiltyard.reopen.kept import task_of
from tiltyard.trace import Trace

BEFORE = 24
"""Characters of what two long texts have in common that are shown before the place where they part."""


async def departures(spec: EpisodeSpec, task: Task, records: Records, tasks: TaskShelf) -> tuple[Differing, ...]:
    """Whatever of an episode with this ``task`` is not as it was with the one it was made from, on the left.

    Of a task that is gone only its digest is told, and nothing where the other episode is not recorded. That a
    replay plays a recording is no difference.
    """
    parent = await records.spec(spec.origin.episode_id) if spec.origin is not None else None
    if parent is None or spec.origin is None:
        return ()
    given = {
        **({"policy": _told(parent.policy, spec.policy)} if spec.origin.kind == "fork" else {}),
        "seed": (str(parent.seed), str(spec.seed)),
        "sandbox": (in_words(parent.sandbox), in_words(spec.sandbox)),
    }
    found = (Differing(what=what, left=one, right=other) for what, (one, other) in given.items() if one != other)
    return (*found, *await _of_the_tasks(parent, spec, task, tasks))


def _told(left: PolicySpec, right: PolicySpec) -> tuple[str, str]:
    """Two policies by name, or by what was taken of their sources where that alone differs."""
    if left.target != right.target or left.digest == right.digest:
        return left.target, right.target
    return f"{left.target} of {left.digest}", f"{right.target} of {right.digest}"


async def _of_the_tasks(
    parent: EpisodeSpec, spec: EpisodeSpec, task: Task, tasks: TaskShelf
) -> tuple[Differing, ...]:
    if parent.task_digest == spec.task_digest:
        return ()
    try:
        return tasks_differ(await task_of(parent, tasks), task)
    except (InputMissing, ObjectsUnreachable):
        return (Differing(what="task digest", left=parent.task_digest, right=spec.task_digest),)


def tasks_differ(left: Task, right: Task) -> tuple[Differing, ...]:
    """Each field in which two tasks differ, with the path to it; one of several has its number, from 0."""
    return tuple(_differing(*leaf) for leaf in leaves_that_differ(_parts(left), _parts(right)))


def _parts(task: Task) -> JsonObject:
    told = _numbered(task.model_dump(mode="json"))
    assert isinstance(told, dict)
    return {**told, "faults": faults_told(task)}


def _numbered(value: JsonValue) -> JsonValue:
    """Lists of things with fields by their numbers, so that only those are told that differ."""
    if isinstance(value, list) and value and all(isinstance(one, dict) for one in value):
        value = {str(number): one for number, one in enumerate(value)}
    return {key: _numbered(one) for key, one in value.items()} if isinstance(value, dict) else value


def _differing(what: str, left: JsonValue, right: JsonValue) -> Differing:
    if isinstance(left, str) and isinstance(right, str):
        common = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(left, right, strict=False)))
        cut = max(0, common - BEFORE)
        left, right = (f"{'…' if cut else ''}{text[cut:]}".replace("\n", "\\n") for text in (left, right))
    return Differing(what=what, left=in_words(left), right=in_words(right))


def began_at(trace: Trace) -> int | None:
    """The turn of a fork at which its shipped script began, not knowing of those before; ``None`` where these are
    its own, and of a policy of one's own, of which nobody knows."""
    spec, kept = trace.evidence.spec, trace.evidence.turns[: trace.evidence.spec.kept_turns]
    if spec.origin is None or spec.origin.kind != "fork" or not kept or spec.policy.directory:
        return None
    try:
        policy = open_script(spec.policy.target, trace.task)
    except BadPolicy:
        return None
    assert isinstance(policy, ScriptPolicy | Follower)
    return policy.begins_at(Progress(trace.task, kept).view(trace.tools, spec.seed, "")) or None
