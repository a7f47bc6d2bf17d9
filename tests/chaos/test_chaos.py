"""Episodes under random SIGKILLs of every process and random losses on the wire: nothing is lost or done twice."""

import asyncio
import random
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from schemas.episode import EpisodeResult, EpisodeSpec, PolicySpec, Validity
from schemas.evidence import Evidence
from schemas.task import Task
from tests.chaos.kills import Chaos, stack
from tiltyard.episode.grading import examine
from tiltyard.policies.catalogue import open_script
from tiltyard.suite import shipped
from tiltyard.testing.memory_worlds import MemoryWorlds
from tiltyard.testing.once import flaws
from tiltyard.testing.rehearse import rehearse
from tiltyard.trace import unpack
from tiltyard.worlds.engine import Engine
from tiltyard.worlds.registry import worlds
from workers.bootstrap.ground import open_ground
from workers.ground import Ground

PLAN = (
    ("replacement/reply-lost/*", ("reconcile", "same_key_retry", "handoff", "new_id_retry")),
    ("replacement/receipt-delayed/*", ("reconcile",)),
    ("replacement/approval-amended/*", ("reference", "late_callback")),
    ("retail/reply-lost/*", ("reference",)),
    ("retail/exchange/*", ("reference",)),
)
"""Families whose episodes write, wait, lose replies as planned, and leave work behind."""

AT_ONCE = 8


def planned(episodes: int) -> list[tuple[Task, str, int]]:
    """(task, policy, seed), as many as asked for."""
    pairs = [(task, policy) for glob, policies in PLAN for task in shipped().match([glob]) for policy in policies]
    rounds = -(-episodes // len(pairs))
    return [(task, policy, seed) for seed in range(rounds) for task, policy in pairs][:episodes]


async def undisturbed(trials: Sequence[tuple[Task, str, int]]) -> list[EpisodeResult]:
    """What each trial comes to in one process with nothing failing."""
    engine = Engine(worlds(), MemoryWorlds())
    results = []
    for task, policy, seed in trials:
        evidence = await rehearse(task, open_script(policy, task), engine, seed=seed)
        results.append(examine(task, evidence, engine.describe(task.world)))
    return results


async def disturbed(ground: Ground, trials: Sequence[tuple[Task, str, int]]) -> list[EpisodeResult]:
    gate = asyncio.Semaphore(AT_ONCE)
    specs = [await ground.plan(task, PolicySpec(target=policy), seed) for task, policy, seed in trials]

    async def one(spec: EpisodeSpec) -> EpisodeResult:
        async with gate:
            await ground.submit([spec])
            return await ground.result(spec.episode_id)

    return list(await asyncio.gather(*map(one, specs)))


async def wreak(home: Path, monkeypatch: pytest.MonkeyPatch, episodes: int, seed: int) -> None:
    trials = planned(episodes)
    calm = await undisturbed(trials)
    with stack(home, monkeypatch, f"{seed}:0.1") as (settings, config):
        async with open_ground(settings) as ground:
            chaos = Chaos(config, random.Random(seed), (0.2, 5))
            reign = asyncio.create_task(chaos.reign())
            results = await disturbed(ground, trials)
            reign.cancel()
            with suppress(asyncio.CancelledError):
                await reign
            print(f"{len(results)} episodes, seed {seed}, killed {dict(chaos.kills)}")
            await assert_nothing_made_a_difference(ground, calm, results)
            late = sum(result.counts.late_writes for result in results)
            print(f"late writes refused: {late}")


async def assert_nothing_made_a_difference(
    ground: Ground, calm: Sequence[EpisodeResult], results: Sequence[EpisodeResult]
) -> None:
    for before, after in zip(calm, results, strict=True):
        told = f"{after.episode_id} {after.task} {after.policy} seed {after.seed}: {after.reason}"
        assert (after.end, after.validity) == (before.end, Validity.VALID), told
        assert after.digests.trace == before.digests.trace, told
        assert after.score == before.score, told
        assert flaws((await evidence_of(ground, after)).facts) == (), told


async def evidence_of(ground: Ground, result: EpisodeResult) -> Evidence:
    return unpack(await ground.objects.get(result.trace)).evidence


@pytest.mark.timeout(900)
async def test_episodes_under_kills_and_losses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    await wreak(tmp_path / "home", monkeypatch, 120, seed=1)


@pytest.mark.chaos
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(2, 7))
async def test_long_chaos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    await wreak(tmp_path / "home", monkeypatch, 300, seed)
