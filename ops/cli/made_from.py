"""What an episode has other than the one it was made from, for a person: below its origin."""

from schemas.base import Model
from schemas.episode import EpisodeSpec, Origin
from schemas.replay import Differing
from schemas.task import Task
from tiltyard.episode.tasks import TaskShelf
from tiltyard.ports import Objects, Records
from tiltyard.reopen.departing import began_at, departures
from tiltyard.trace import Trace


class Made(Model):
    """``differs`` is whatever is not as it was with the other episode; ``script_begins`` the turn at which the
    shipped script of a fork began, where it knows nothing of those before."""

    differs: tuple[Differing, ...] = ()
    script_begins: int | None = None


async def made_from(
    spec: EpisodeSpec, task: Task, records: Records, objects: Objects, trace: Trace | None = None
) -> Made:
    """How an episode of this task departs from the one it was made from; nothing where it was made from none. Where
    a script began, only a trace can tell."""
    if spec.origin is None:
        return Made()
    differs = await departures(spec, task, records, TaskShelf(objects))
    return Made(differs=differs, script_begins=began_at(trace) if trace is not None else None)


def origin_lines(origin: Origin | None, policy: str, made: Made) -> list[str]:
    """What an episode by this policy was made from, and how it departs from that, as results have it."""
    if origin is None:
        return []
    at = f" before turn {origin.turn}" if origin.kind == "fork" else ""
    told = [
        f"origin  {origin.kind} of {origin.episode_id}{at}",
        *(f"differs {one.what}: {one.left} -> {one.right}" for one in made.differs),
    ]
    if made.script_begins is None:
        return told
    last = made.script_begins - 1
    before = f"turns 0 to {last}" if last else "turn 0"
    return [*told, f"script  {policy} begins at turn {made.script_begins} and knows nothing of {before}"]
