"""What a replay costs: against the episode that took its policy's time, and so many a second."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path

from infra.local.stack import Say
from infra.policies.source import resolve_policy
from ops.bench.figures import Figure, Target
from ops.bench.stack import AT_ONCE, Stack, stack
from ops.bench.tasks import without_sandbox
from ops.bench.thinking import THINKS_S
from ops.cli.counting import counted
from schemas.episode import EpisodeResult, EpisodeSpec
from schemas.task import Limits, Task
from tiltyard.errors import EnvironmentFailed
from tiltyard.policies import catalogue
from tiltyard.reopen.replaying import Original, Replaying
from workers.ground import new_episode_id

TURNS = 100
ORIGINALS = 4
"""Episodes whose policy thinks, all at once: they wait most of the time."""

ROUNDS = 5
"""Replays of each, one at a time; and parts of those that are many at once."""

PART = 16
"""Replays of one part."""

FASTER = Target(least=20, judged_from=ORIGINALS)


@dataclass(frozen=True)
class Replayer:
    """Replays on one stack."""

    ours: Stack
    replaying: Replaying

    async def replay(self, original: Original) -> float:
        """Seconds of one replay, from its plan to its outcome. Raises ``EnvironmentFailed`` where it diverges."""
        began = time.perf_counter()
        result = await self._played(await self.replaying.plan(original, new_episode_id()))
        seconds = time.perf_counter() - began
        verdict = await self.replaying.verdict(original, result)
        if verdict.diverged:
            raise EnvironmentFailed(f"{verdict.replay} diverged from {verdict.episode}: {verdict.what}")
        return seconds

    async def _played(self, spec: EpisodeSpec) -> EpisodeResult:
        await self.ours.ground.submit([spec])
        return await self.ours.ground.result(spec.episode_id)

    async def rate(self, originals: Sequence[Original], count: int) -> float:
        """Replays a second, ``AT_ONCE`` of them at once."""
        gate = asyncio.Semaphore(AT_ONCE)

        async def one(original: Original) -> None:
            async with gate:
                await self.replay(original)

        began = time.perf_counter()
        await asyncio.gather(*map(one, islice(cycle(originals), count)))
        return count / (time.perf_counter() - began)


async def measure(most: int, say: Say) -> list[Figure]:
    """Episodes of 100 turns by a policy that thinks, in a process of its own; then their replays."""
    turns = min(TURNS, most)
    count, rounds, part = (ORIGINALS, ROUNDS, PART) if most >= TURNS else (1, 2, AT_ONCE)
    async with stack(say) as ours:
        replayer = Replayer(ours, Replaying(ours.ground.records, ours.ground.objects))
        say(f"{counted(count, 'episode')} of {turns} turns, {THINKS_S * turns:.0f} s of thinking each")
        played = await asyncio.gather(*(_thinking(ours, _task(turns)) for _ in range(count)))
        originals = [await replayer.replaying.original(result.episode_id) for result, _ in played]
        await replayer.replay(originals[0])  # whatever is loaded once is there afterwards
        say(f"{rounds * count} replays, one at a time")
        alone = [await replayer.replay(original) for _ in range(rounds) for original in originals]
        say(f"{rounds * part} replays, {AT_ONCE} at once")
        rates = [await replayer.rate(originals, part) for _ in range(rounds)]
    return _figures(turns, [seconds for _, seconds in played], alone, rates, rounds * part)


def _figures(
    turns: int, original: Sequence[float], alone: Sequence[float], rates: Sequence[float], many: int
) -> list[Figure]:
    replayed = Figure.of(f"the replay of an episode of {turns} turns", alone)
    episode = Figure.of(f"an episode of {turns} turns that think {THINKS_S:g} s each", original)
    rate = Figure.of(
        f"replays of {turns} turns, {AT_ONCE} at once",
        rates,
        scale=1,
        unit="/s",
        episodes=many,
        more_is_better=True,
    )
    turn = Figure.of("  a turn of it", [seconds / turns for seconds in alone])
    return [episode.over(replayed, FASTER), replayed, turn, rate]


def _task(turns: int) -> Task:
    """The ten calls of the other subjects, as many as there are turns."""
    return without_sandbox().model_copy(update={"limits": Limits(turns=turns, tool_calls=turns)})


async def _thinking(ours: Stack, task: Task) -> tuple[EpisodeResult, float]:
    """(the outcome of one, its seconds from plan to outcome)."""
    place = str(Path(__file__).parent)
    policy = resolve_policy("thinking:act", place, catalogue.shipped, ours.settings.search_path)
    began = time.perf_counter()
    spec = await ours.ground.plan(task, policy, seed=0)
    await ours.ground.submit([spec])
    result = await ours.ground.result(spec.episode_id)
    if result.score.completion < 1:
        raise EnvironmentFailed(f"{result.episode_id} ended {result.end}: {result.reason}")
    return result, time.perf_counter() - began
