"""Episodes in containers under random kills, cancels and terminates: nothing is left, nobody meets another."""

import random
from pathlib import Path

import psutil
import pytest

from infra.local.stack import take_down
from infra.sandboxes.client import HostClient
from schemas.episode import End
from schemas.sandbox import Isolation
from tests.chaos.canaries import (
    LEFT_S,
    assert_met_nobody,
    assert_none_is_spoilt,
    disturbed,
    evidence_of,
    folders,
    nothing_held,
)
from tests.chaos.containers import Containers
from tests.chaos.kills import Chaos, stack
from tests.contract.sandboxes.docker_engine import engine_or_skip, lend_images, mounts_below
from tests.workflow.arena import until
from workers.bootstrap.ground import open_ground
from workers.settings import Settings

ISOLATIONS: tuple[Isolation, ...] = ("reset", "reset", "reset", "fresh")
"""In turn: most may be given a container that others had before."""

WARM = "12"
"""So many containers may wait that there is room for all that are reset."""


async def wreak(home: Path, images: Path, monkeypatch: pytest.MonkeyPatch, episodes: int, seed: int) -> None:
    lend_images(images, home / "images")
    monkeypatch.setenv("TILTYARD_WARM_SANDBOXES", WARM)
    with engine_or_skip() as engine, stack(home, monkeypatch) as (settings, config):
        containers = Containers(engine, settings)
        with containers.watched():
            chaos = Chaos(config, random.Random(seed), (0.2, 4))
            await assert_nothing_made_a_difference(settings, chaos, episodes, seed)
            take_down(config.paths, print)
        assert len(containers.made) > 0
        print(f"{len(containers.made)} containers were made")
        assert containers.there == [], "with the pool drained there is none"
        assert containers.processes == []
        assert containers.control_groups == []
        assert left_behind() == [], "no process outlives its episode"
        assert folders(settings) == []
        assert list((settings.sandbox_stage / "docker" / "containers").iterdir()) == []
        assert mounts_below(home) == []


async def assert_nothing_made_a_difference(settings: Settings, chaos: Chaos, episodes: int, seed: int) -> None:
    isolations = [ISOLATIONS[number % len(ISOLATIONS)] for number in range(episodes)]
    async with open_ground(settings) as ground, HostClient(settings.sandboxes_socket) as sandboxes:
        results = await disturbed(ground, chaos, "docker", isolations, random.Random(seed + 1))
        ends = {end.value: sum(one.end is end for one in results) for end in End}
        print(f"{episodes} episodes, seed {seed}, killed {dict(chaos.kills)}, ended {ends}")
        assert_none_is_spoilt(results, episodes)
        await until(lambda: nothing_held(sandboxes, settings), 60)
        await sandboxes.sweep()  # what a host that was killed had made, and nobody has had yet
        known = await evidence_of(ground, results)
        for number, evidence in known.items():
            assert_met_nobody(number, results[number], evidence)
        facts = [one.sandbox.facts for one in known.values() if one.sandbox]
        used = sum(one.served_before > 0 for one in facts)
        print(f"{used} of {len(facts)} were in a container that others had before")
        assert used > 0, "none was used again: nobody could have met another"
        assert all(one.served_before == 0 for one in facts if one.isolation == "fresh")


def left_behind() -> list[list[str]]:
    """What commands of the episodes have left running."""
    lines = [one.info["cmdline"] or [""] for one in psutil.process_iter(["cmdline"])]
    return [line for line in lines if LEFT_S in line]


@pytest.mark.timeout(600)
async def test_episodes_in_containers_under_kills_cancels_and_terminates(
    docker_images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await wreak(tmp_path / "home", docker_images, monkeypatch, 24, seed=1)


@pytest.mark.chaos
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(2, 4))
async def test_long_chaos_in_containers(
    docker_images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    await wreak(tmp_path / "home", docker_images, monkeypatch, 300, seed)
