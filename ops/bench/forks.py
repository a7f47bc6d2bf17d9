"""What a fork costs by the turn that it begins at, and what a turn leaves stored, on a whole stack."""

import sqlite3
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from google.protobuf.timestamp_pb2 import Timestamp

from infra.local.stack import Say
from ops.bench.figures import Figure, Measure, Series, Target, interleaved
from ops.bench.stack import Stack, stack
from ops.bench.tasks import many_commands, many_writes
from schemas.episode import EpisodeResult, PolicySpec, workflow_id
from schemas.task import Task
from tiltyard.errors import EnvironmentFailed

ROUNDS = 15
EARLY, LATE = 5, 500
FILES = 200

AT_MOST = Target(most=2, judged_from=10)
ALIKE = Target(most=1.3)

A_TURN_A_SLICE = {"TILTYARD_SLICE_S": "0.001"}
"""As with a model that thinks: each turn is followed by a checkpoint."""


async def measure(most: int, say: Say, late: int = LATE) -> list[Figure]:
    """Forks of an episode with a command a turn, each of which changes one of ``FILES`` files, and of one that
    writes to its world at each turn."""
    late = min(late, max(EARLY + 1, most // 4))
    async with stack(say, A_TURN_A_SLICE) as ours:
        if why_not := await ours.unavailable("bubblewrap"):
            return [Figure(what="a fork of an episode with commands", skipped=why_not)]
        parents = {
            "with commands": many_commands(late + 1, FILES, changes=True),
            "that writes to its world": many_writes(late + 1),
        }
        say(f"episodes of {late + 1} turns")
        played = {what: await _played(ours, task, late + 1) for what, task in parents.items()}
        at = {(what, turn): _fork(ours, parent, turn) for what, parent in played.items() for turn in (EARLY, late)}
        say("forks")
        series = await interleaved(
            {_told(*which): fork for which, fork in at.items()}, max(1, min(ROUNDS, most // 10))
        )
        figures = [figure for what in parents for figure in _figures(what, late, series)]
        return [*figures, *await _storage(ours, late, say)]


def _figures(what: str, late: int, series: Series) -> list[Figure]:
    early, late_one = (Figure.of(name, series[name]) for name in (_told(what, EARLY), _told(what, late)))
    return [early, late_one.over(early, AT_MOST)]


def _told(what: str, turn: int) -> str:
    return f"a fork at turn {turn} of an episode {what}, until its first turn has ended"


async def _played(ours: Stack, task: Task, turns: int) -> EpisodeResult:
    result = await ours.episode(task)
    if result.counts.turns <= turns:
        raise EnvironmentFailed(f"{result.episode_id} ended {result.end} after {result.counts.turns} turns")
    return result


def _fork(ours: Stack, parent: EpisodeResult, turn: int) -> Measure:
    """Seconds from the wish to the end of the fork's first own turn; the policy gives up in it."""

    async def measured() -> float:
        began = time.perf_counter()
        spec = await ours.ground.plan_fork(parent.episode_id, turn, policy=PolicySpec(target="do_nothing"))
        await ours.ground.submit([spec])
        asked_s = time.perf_counter() - began
        result = await ours.ground.result(spec.episode_id)
        if result.counts.turns != turn + 1:
            raise EnvironmentFailed(f"{result.episode_id} ended {result.end}: {result.reason}")
        return asked_s + await _until_first_turn_s(ours, spec.episode_id)

    return measured


async def _until_first_turn_s(ours: Stack, episode_id: str) -> float:
    """Seconds from the workflow's start to the end of its first slice, by the server's clock."""
    history = await ours.ground.client.get_workflow_handle(workflow_id(episode_id)).fetch_history()
    slices = {
        event.event_id
        for event in history.events
        if event.activity_task_scheduled_event_attributes.activity_type.name == "run_slice"
    }
    ended = next(
        event.event_time
        for event in history.events
        if event.activity_task_completed_event_attributes.scheduled_event_id in slices
    )
    return _seconds(ended) - _seconds(history.events[0].event_time)


def _seconds(moment: Timestamp) -> float:
    return float(moment.seconds) + moment.nanos / 1e9


async def _storage(ours: Stack, late: int, say: Say) -> list[Figure]:
    """Bytes that one more turn leaves in objects and databases, in short and in long episodes."""
    figures = []
    for changes, what in ((False, "changes nothing"), (True, f"changes one of {FILES} files")):
        say(f"episodes whose turns each {what.replace('changes', 'change')}")
        short, middle, long = sorted({max(1, late // 5), max(2, late // 2), late})
        stored = [await _left_bytes(ours, turns, changes=changes) for turns in (short, middle, long)]
        first, then = ((b - a) / (m - n) for a, b, n, m in _steps(stored, (short, middle, long)))
        early = Figure.of(f"stored of a turn that {what}, of the first {middle}", [first], scale=1, unit="B")
        more = Figure.of(f"the same, of the last {long - middle} of {long}", [then], scale=1, unit="B")
        figures += [early, more.over(early, ALIKE if late == LATE else None)]
    return figures


def _steps(stored: Sequence[float], turns: Sequence[int]) -> list[tuple[float, float, int, int]]:
    return list(zip(stored, stored[1:], turns, turns[1:], strict=False))


async def _left_bytes(ours: Stack, turns: int, *, changes: bool) -> float:
    before = _stored_bytes(ours.settings.home)
    await _played(ours, many_commands(turns, FILES, changes=changes), turns)
    return _stored_bytes(ours.settings.home) - before


def _stored_bytes(home: Path) -> int:
    """Of all objects, and of all pages in use of the databases of records and of worlds."""
    objects = sum(file.stat().st_size for file in (home / "objects").rglob("*") if file.is_file())
    return objects + sum(_used_bytes(home / name) for name in ("records.db", "worlds.db"))


def _used_bytes(database: Path) -> int:
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as opened:
        size, pages, free = (
            opened.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_size", "page_count", "freelist_count")
        )
    return int(size) * (int(pages) - int(free))
