"""Following one episode from afar."""

import asyncio
from collections.abc import Callable

from schemas.episode import EpisodeResult
from schemas.status import EpisodeStatus
from workers.ground import Ground

POLL_S = 0.3


def status_line(status: EpisodeStatus) -> str:
    """Where an episode is, and what it needs of a person."""
    line = f"{status.episode_id}: {status.phase}, turn {status.turns}"
    if status.question:
        line += f"\nit asks: {status.question}\ntiltyard episodes answer {status.episode_id} TEXT"
    elif status.phase == "paused":
        line += f"\ntiltyard episodes resume {status.episode_id}"
    return line


async def follow(ground: Ground, episode_id: str, say: Callable[[str], None]) -> EpisodeResult:
    """Say each change of an episode's status until it ends; its result."""
    said = ""
    while True:
        status = await ground.status(episode_id)
        if status.phase == "done":
            return await ground.result(episode_id)
        line = status_line(status)
        if line != said:
            say(line)
            said = line
        await asyncio.sleep(POLL_S)
