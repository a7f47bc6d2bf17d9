"""What an episode has other than the one it was made from, for a person: below its origin."""

from schemas.base import Model
from schemas.episode import EpisodeSpec
from schemas.replay import Differing
from tiltyard.episode.tasks import TaskShelf
from tiltyard.ports import Objects, Records
from tiltyard.reopen.departing import began_at, departures
from tiltyard.trace import Trace


class Made(Model):
    """``differs`` is whatever is not as it was with the other episode; ``script_begins`` the turn at which the
    shipped script of a fork began, where it knows nothing of those before."""

    differs: tuple[Differing, ...] = ()
    script_begins: int | None = None


async def made_from(spec: EpisodeSpec, trace: Trace, records: Records, objects: Objects) -> Made:
    """How an episode that has ended departs from the one it was made from; nothing where it was made from none."""
    if spec.origin is None:
        return Made()
    differs = await departures(spec, trace.task, records, TaskShelf(objects))
    return Made(differs=differs, script_begins=began_at(trace))


def made_lines(made: Made, policy: str) -> list[str]:
    """A line for each, as results have them."""
    told = [f"differs {one.what}: {one.left} -> {one.right}" for one in made.differs]
    if made.script_begins is None:
        return told
    last = made.script_begins - 1
    before = f"turns 0 to {last}" if last else "turn 0"
    return [*told, f"script  {policy} begins at turn {made.script_begins} and knows nothing of {before}"]
