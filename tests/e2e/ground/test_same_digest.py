"""I7: the same task, seed and scripted policy give the same trace digest, wherever and however they run."""

import asyncio
from collections.abc import Sequence

from schemas.episode import EpisodeResult, PolicySpec
from schemas.task import Task
from tiltyard.episode.grading import examine
from tiltyard.policies.catalogue import open_script
from tiltyard.suite import shipped
from tiltyard.testing.memory_worlds import MemoryWorlds
from tiltyard.testing.rehearse import rehearse
from tiltyard.worlds.engine import Engine
from tiltyard.worlds.registry import worlds
from workers.ground import Ground

TRIALS = [
    (task, policy, seed)
    for glob, policy in (
        ("replacement/*/1", "reconcile"),
        ("replacement/reply-lost/*", "new_id_retry"),
        ("replacement/approved/1", "late_callback"),
        ("retail/*/1", "reference"),
    )
    for task in shipped().match([glob])
    for seed in (0, 1)
]


async def in_process() -> list[EpisodeResult]:
    engine = Engine(worlds(), MemoryWorlds())
    results = []
    for task, policy, seed in TRIALS:
        evidence = await rehearse(task, open_script(policy, task), engine, seed=seed)
        results.append(examine(task, evidence, engine.describe(task.world)))
    return results


async def on_the_stack(ground: Ground, at_once: int) -> list[EpisodeResult]:
    gate = asyncio.Semaphore(at_once)

    async def one(task: Task, policy: str, seed: int) -> EpisodeResult:
        async with gate:
            spec = await ground.plan(task, PolicySpec(target=policy), seed)
            await ground.submit([spec])
            return await ground.result(spec.episode_id)

    return list(await asyncio.gather(*(one(*trial) for trial in TRIALS)))


def digests(results: Sequence[EpisodeResult]) -> list[tuple[str, str]]:
    return [(result.digests.trace, result.digests.tools) for result in results]


async def test_serial_concurrent_and_in_process_runs_have_equal_digests(ground: Ground) -> None:
    rehearsed = digests(await in_process())
    assert digests(await on_the_stack(ground, 1)) == rehearsed
    assert digests(await on_the_stack(ground, 8)) == rehearsed
    assert len(set(rehearsed)) > len(TRIALS) / 2, "different trials have different digests"
