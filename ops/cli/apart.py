"""``tiltyard episodes show EPISODE --diff OTHER``: two episodes of one task side by side. It starts nothing."""

from collections.abc import Iterator
from pathlib import Path

from ops.cli.folded import Line, section, show_lines
from ops.cli.looking import ended
from ops.cli.output import Output
from ops.cli.turns_shown import turn_lines
from ops.cli.values_shown import BRIEF, value_lines
from schemas.episode import EpisodeResult
from schemas.story import Apart, ApartSide
from tiltyard.reopen.apart import apart
from tiltyard.reopen.kept import trace_of
from tiltyard.trace import Trace
from workers.bootstrap.objects import open_objects
from workers.settings import Settings


async def show_diff(home: Path | None, episode_id: str, other_id: str, out: Output) -> None:
    """Print where two episodes part. Raises ``BadInput`` for those of different tasks or without a trace."""
    settings = Settings.from_environment(home)
    found = apart(*await _kept(settings, episode_id), *await _kept(settings, other_id))
    out.value(found)
    show_lines(out, apart_lines(found))
    out.table(("", "LEFT", "RIGHT"), list(rows(found)))
    show_lines(out, why_lines(found))


async def _kept(settings: Settings, episode_id: str) -> tuple[Trace, EpisodeResult]:
    result = await ended(settings, episode_id)
    with open_objects(settings) as objects:
        return await trace_of(result, objects), result


def apart_lines(found: Apart) -> Iterator[Line]:
    """Where they part, with both sides."""
    yield Line(f"two episodes of {found.task}")
    yield Line(f"left   {_named(found.left)}", hang=7)
    yield Line(f"right  {_named(found.right)}", hang=7)
    if not found.same_task:
        yield Line("the task was not the same: " + ("" if found.differs else "it is stored in another form"))
        yield from (Line(f"{one.what}: {one.left} -> {one.right}", 2) for one in found.differs)
    yield Line("")
    yield Line(_where(found))
    yield from _difference(found)
    for name, side in (("left", found.left), ("right", found.right)):
        if found.turn is not None:
            told = turn_lines(side.turn) if side.turn is not None else [Line(f"had ended: {side.end}")]
            yield from section(f"{name}:", told)
    yield Line("")
    yield Line("what came of it")


def _named(side: ApartSide) -> str:
    return f"{side.episode_id}, policy {side.policy}, seed {side.seed}"


def _where(found: Apart) -> str:
    if found.turn is None:
        return f"all {found.left.turns} decisions are the same" if found.left.turns else "neither had a turn"
    if found.turn == 0:
        return "they part in the first turn"
    return f"the decisions of turns 0 to {found.turn - 1} are the same; they part in turn {found.turn}"


def _difference(found: Apart) -> Iterator[Line]:
    """The first difference of any kind, where another one comes before the decision."""
    before = found.before
    if before is None:
        if found.turn is None:
            yield Line("nothing else differs either")
        return
    turn = "after the last turn" if before.turn is None else f"turn {before.turn}"
    call = "" if before.call is None else f", call {before.call}"
    yield Line(f"the first difference of any kind: {turn}{call}: {before.what}")
    yield from value_lines("left:  ", before.left, 2, BRIEF)
    yield from value_lines("right: ", before.right, 2, BRIEF)


def rows(found: Apart) -> Iterator[tuple[str, str, str]]:
    """What came of it, line by line: end, score, and each contract."""
    left, right = found.left, found.right
    yield "episode", left.episode_id, right.episode_id
    yield "turns", str(left.turns), str(right.turns)
    yield "end", f"{left.end}, {left.validity}", f"{right.end}, {right.validity}"
    for name in ("total", "completion", "process", "efficiency"):
        one, other = getattr(left.score, name), getattr(right.score, name)
        yield "score" if name == "total" else name, f"{one:.3f}", f"{other:.3f}"
    verdicts = [{one.name: one for one in side.contracts} for side in (left, right)]
    for name in dict.fromkeys((*verdicts[0], *verdicts[1])):
        told = ["-" if name not in one else "passed" if one[name].passed else "FAILED" for one in verdicts]
        yield name, told[0], told[1]


def why_lines(found: Apart) -> Iterator[Line]:
    """Why contracts failed that only one of them failed."""
    for name, side, other in (("left", found.left, found.right), ("right", found.right, found.left)):
        failed = {one.name for one in other.contracts if not one.passed}
        for contract in side.contracts:
            if not contract.passed and contract.name not in failed:
                yield from section(f"{name} failed {contract.name}", map(Line, contract.why))
