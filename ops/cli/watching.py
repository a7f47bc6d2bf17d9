"""Following one episode from afar."""

import asyncio
from collections.abc import Callable, Iterable, Iterator

from ops.cli.called import command_line
from ops.cli.counting import counted
from schemas.episode import EpisodeResult
from schemas.status import EpisodeStatus
from workers.ground import Ground

POLL_S = 0.3

HELD = ("paused", "question", "waiting")
"""Phases in which nothing of an episode runs, so that a pause that was asked for holds."""


def phase_of(status: EpisodeStatus) -> str:
    """The phase in a word or two, with the pause that an episode does not show while it waits for something, and
    whether a step of it fails and is tried again."""
    paused = status.paused and status.phase not in ("paused", "done")
    marks = ("paused" if status.phase in HELD else "pausing") if paused else "", "failing" if status.failing else ""
    return ", ".join((status.phase, *filter(None, marks)))


def status_line(status: EpisodeStatus) -> str:
    """Where an episode is, and what it needs of a person."""
    return "\n".join(
        (f"{status.episode_id}: {phase_of(status)}, {_so_far(status)}", *failing_lines(status), *needs(status))
    )


def _so_far(status: EpisodeStatus) -> str:
    """How many turns it has decided; the last of them has the number before that in its story."""
    return f"after {counted(status.turns, 'turn')}" if status.turns else "no turn yet"


def failing_lines(status: EpisodeStatus) -> tuple[str, ...]:
    """What keeps an episode from going on, where something does."""
    return tuple(f"failing: {one}" for one in status.failing)


def needs(status: EpisodeStatus) -> tuple[str, ...]:
    """What an episode asks, and the commands with which it goes on."""
    episode = status.episode_id
    asks = (f"it asks: {status.question}", command_line("episodes", "answer", episode, "TEXT"))
    return (
        *(asks if status.question else ()),
        *((command_line("episodes", "resume", episode),) if status.paused and status.phase in HELD else ()),
        *((command_line("episodes", "show", episode),) if status.phase == "done" else ()),
    )


def way_on(statuses: Iterable[EpisodeStatus]) -> Iterator[str]:
    """What episodes that hold need of a person, and the commands with which they go on."""
    statuses = list(statuses)
    paused = [one.episode_id for one in statuses if one.paused and one.phase != "done"]
    if paused:
        yield f"{counted(len(paused), 'episode')} paused; to go on:"
        yield command_line("episodes", "resume", *paused)
    for one in statuses:
        if one.question:
            yield f"{one.episode_id} asks: {one.question}"
            yield command_line("episodes", "answer", one.episode_id, "TEXT")


def _without_attempts(status: EpisodeStatus) -> EpisodeStatus:
    failing = tuple(one.model_copy(update={"attempt": 0}) for one in status.failing)
    return status.model_copy(update={"failing": failing})


async def follow(ground: Ground, episode_id: str, say: Callable[[str], None]) -> EpisodeResult:
    """Say each change of an episode's status until it ends; its result. Another attempt at the same is none."""
    said = ""
    while True:
        status = await ground.status(episode_id)
        if status.phase == "done":
            return await ground.result(episode_id)
        seen = status_line(_without_attempts(status))
        if seen != said:
            say(status_line(status))
            said = seen
        await asyncio.sleep(POLL_S)
