"""Forks of random episodes at random turns, several at once, also while processes are killed: each goes on as its
parent did."""

import asyncio
import random
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from infra.sandboxes.client import HostClient
from schemas.episode import EpisodeResult, Validity
from schemas.task import Task
from tests.chaos.kills import Chaos, stack
from tests.chaos.test_chaos import AT_ONCE, disturbed, evidence_of, planned
from tiltyard.suite import shipped
from tiltyard.testing.once import flaws
from workers.bootstrap.ground import open_ground
from workers.ground import Ground
from workers.settings import Settings

IN_SANDBOXES = [
    (task, policy, 0)
    for glob, policies in (
        ("code-repair/repair/*", ("reference", "hardcoder", "nohup_writer")),
        ("replacement/over-http/*", ("reference",)),
    )
    for task in shipped().match([glob])
    for policy in policies
]


async def trials(settings: Settings, episodes: int) -> list[tuple[Task, str, int]]:
    """Of worlds, and where this machine can have sandboxes as many with commands."""
    async with HostClient(settings.sandboxes_socket) as sandboxes:
        boxed = IN_SANDBOXES if (await sandboxes.offer("bubblewrap")).available else []
    return [*planned(episodes)[: episodes - len(boxed[: episodes // 2])], *boxed[: episodes // 2]]


async def branched(
    ground: Ground, results: Sequence[EpisodeResult], forks: int, dice: random.Random
) -> list[tuple[EpisodeResult, EpisodeResult]]:
    """(parent, fork) for random turns of random parents; every third is a fork of a fork."""
    gate, done = asyncio.Semaphore(AT_ONCE), list[tuple[EpisodeResult, EpisodeResult]]()

    async def one(number: int) -> None:
        async with gate:
            alike = [
                fork for before, fork in done if fork.digests == before.digests
            ]  # no loss was told to its policy
            parent = dice.choice(results if number % 3 or not alike else alike)
            turn = dice.randrange(parent.counts.turns)
            spec = await ground.plan_fork(parent.episode_id, turn)
            await ground.submit([spec])
            done.append((parent, await ground.result(spec.episode_id)))

    await asyncio.gather(*map(one, range(forks)))
    return done


async def branch(
    home: Path, monkeypatch: pytest.MonkeyPatch, parents: int, forks: int, seed: int, *, kills: bool
) -> None:
    dice = random.Random(seed)
    with stack(home, monkeypatch, f"{seed}:0.1" if kills else "") as (settings, config):
        async with open_ground(settings) as ground:
            results = await disturbed(ground, await trials(settings, parents))
            assert {one.validity for one in results} == {Validity.VALID}
            chaos = Chaos(config, random.Random(seed), (0.2, 5))
            reign = asyncio.create_task(chaos.reign() if kills else asyncio.sleep(0))
            pairs = await branched(ground, results, forks, dice)
            reign.cancel()
            with suppress(asyncio.CancelledError):
                await reign
            print(f"{len(pairs)} forks of {parents} episodes, seed {seed}, killed {dict(chaos.kills)}")
            for parent, fork in pairs:
                await assert_goes_on(ground, parent, fork)


async def assert_goes_on(ground: Ground, parent: EpisodeResult, fork: EpisodeResult) -> None:
    told = f"{fork.episode_id} of {parent.episode_id}, {fork.origin}: {parent.task} {parent.policy}: {fork.reason}"
    evidence = await evidence_of(ground, fork)
    assert flaws(evidence.facts) == (), told
    assert fork.validity is Validity.VALID, told
    if evidence.sandbox is not None and evidence.sandbox.facts.incarnation > 1:
        return  # its sandbox was killed; its policy was told, and may have done something else
    assert fork.end is parent.end, told
    assert fork.digests == parent.digests, told
    assert (fork.score, fork.contracts, fork.safety) == (parent.score, parent.contracts, parent.safety), told
    assert (fork.counts.effects, fork.counts.duplicates) == (parent.counts.effects, parent.counts.duplicates), told


@pytest.mark.timeout(600)
async def test_forks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    await branch(tmp_path / "home", monkeypatch, 12, 30, seed=1, kills=True)


@pytest.mark.chaos
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kills", [False, True], ids=["calm", "kills"])
async def test_many_forks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kills: bool) -> None:
    await branch(tmp_path / "home", monkeypatch, 40, 200, seed=2, kills=kills)
