"""Grading episodes again, one after another: what is kept in memory does not grow with their facts."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from ops.cli.failures import BELOW, DONE, told
from ops.cli.output import Output
from ops.cli.progress import counting
from ops.cli.regrades_shown import Shown, as_json
from schemas.episode import EpisodeResult, EpisodeSpec
from schemas.regrade import Regrade
from tiltyard.errors import BadInput, EnvironmentFailed, InputMissing, TiltyardError
from tiltyard.ports import Objects, Records
from tiltyard.reopen import regrading
from tiltyard.reopen.kept import no_such_episode, not_ended
from tiltyard.suite import Suite
from workers.bootstrap.ground import open_records
from workers.bootstrap.objects import open_objects
from workers.settings import Settings

AT_ONCE = 100
"""Episodes whose outcomes are looked through at once."""


async def grade_again(
    settings: Settings, names: Sequence[str], now: Suite | None, fail_on_change: bool, out: Output
) -> int:
    """Print each episode that is named, graded again; the exit code. Raises as ``chosen`` does, before anything is
    graded; that one of them cannot be read is told, and the others are graded all the same."""
    code, shown = DONE, Shown(out)
    with open_records(settings) as records, open_objects(settings) as objects:
        if records is None:
            raise no_such_episode(names[0] if names else "*")
        wanted = await chosen(records, names or ("*",), out)
        with counting(out, len(wanted), "graded again") as tell:
            done = 0
            async for one in regraded(wanted, records, objects, now):
                if isinstance(one, Regrade):
                    out.value(as_json(one))
                    shown.add(one)
                else:
                    text, its = told(one)
                    out.note(text)
                    code = max(code, its)
                tell(done := done + 1)
    shown.show()
    return code or (BELOW if fail_on_change and shown.moved else DONE)


async def regraded(
    episode_ids: Sequence[str], records: Records, objects: Objects, now: Suite | None
) -> AsyncIterator[Regrade | TiltyardError]:
    """Each episode graded again, by its task of ``now`` where that is given; or what keeps it from that."""
    for episode_id in episode_ids:
        try:
            recorded = await records.result(episode_id)
            if recorded is None:
                raise not_ended(episode_id)
            trace, exams = await regrading.stored_facts(recorded, objects)
            then = trace.task
            if now is not None:
                trace = regrading.with_task_of_now(trace, now.task(recorded.task))
            yield regrading.regrade(recorded, trace, exams, then=then)
        except (BadInput, InputMissing, EnvironmentFailed) as error:
            yield error


@dataclass
class _Matching:
    """The episodes that a name means: those that can be graded, and how many others there are; ``again`` are those
    that only made decisions of others again."""

    ended: list[str] = field(default_factory=list)
    left_out: int = 0
    again: int = 0


async def chosen(records: Records, names: Sequence[str], out: Output) -> list[str]:
    """The episodes that are named, each once, those of globs the newest first.

    Of what a glob matches those without facts are left out, and counted; so are replays and probes, which are of
    the same decisions. Raises ``BadInput`` for a name that is nobody's, and for an episode that has not ended.
    """
    found = {name: _Matching() for name in names}
    async for spec, result in _every(records):
        for name, matching in found.items():
            if _fits(name, spec.episode_id, spec.task_id):
                named = spec.episode_id == name
                if named and result is None:
                    raise not_ended(name)
                if not named and spec.origin is not None and spec.origin.kind != "fork":
                    matching.again += 1
                elif result is not None and (result.trace or named):
                    matching.ended.append(spec.episode_id)
                else:
                    matching.left_out += 1
    for name, matching in found.items():
        if not matching.ended and not matching.left_out and not matching.again:
            raise no_such_episode(name)
        if matching.again:
            out.note(f"left out, as replays or probes of minimise: {matching.again}; name them to have them graded")
        if matching.left_out:
            of = matching.left_out + len(matching.ended)
            out.note(f"left out: {matching.left_out} of {of} that have not ended, or of which no facts are stored")
    return list(dict.fromkeys(one for matching in found.values() for one in matching.ended))


async def _every(records: Records) -> AsyncIterator[tuple[EpisodeSpec, EpisodeResult | None]]:
    """All that was ever planned, the newest first."""
    some = await records.episodes(AT_ONCE)
    while some:
        for one in some:
            yield one
        some = await records.episodes(AT_ONCE, before=some[-1][0].episode_id)


def _fits(name: str, episode_id: str, task_id: str) -> bool:
    """Whether an id or a glob means this episode. A glob with a slash is one of tasks, matched part by part."""
    if "/" not in name:
        return fnmatchcase(episode_id, name)
    globs = [*name.strip("/").split("/"), "*", "*"][:3]
    return all(fnmatchcase(part, glob) for part, glob in zip(task_id.split("/"), globs, strict=True))
