"""Episodes with commands under random kills, cancels and terminates: nothing is left, nobody meets another."""

import random
from collections.abc import Collection
from pathlib import Path

import psutil
import pytest

from infra.sandboxes.boxed import mark_of
from infra.sandboxes.cgroups import candidates
from infra.sandboxes.client import HostClient
from infra.sandboxes.records import folder_of
from schemas.episode import End, EpisodeResult
from schemas.sandbox import SandboxRef
from tests.chaos.canaries import (
    LEFT_S,
    assert_met_nobody,
    assert_none_is_spoilt,
    disturbed,
    evidence_of,
    folders,
    nothing_held,
)
from tests.chaos.kills import Chaos, stack
from tests.contract.sandboxes.docker_engine import mounts_below
from tests.workflow.arena import until
from workers.bootstrap.ground import open_ground
from workers.settings import Settings

INCARNATIONS = range(1, 40)
"""More than an episode has, however often its host is killed."""


async def wreak(home: Path, monkeypatch: pytest.MonkeyPatch, episodes: int, seed: int) -> None:
    with stack(home, monkeypatch) as (settings, config):
        async with open_ground(settings) as ground, HostClient(settings.sandboxes_socket) as sandboxes:
            offer = await sandboxes.offer("bubblewrap")
            if not offer.available:
                pytest.skip(f"{offer.problem}: {offer.fix}")
            chaos = Chaos(config, random.Random(seed), (0.2, 4))
            dice = random.Random(seed + 1)
            results = await disturbed(ground, chaos, "bubblewrap", ["fresh"] * episodes, dice)
            ends = {end.value: sum(one.end is end for one in results) for end in End}
            print(f"{episodes} episodes, seed {seed}, killed {dict(chaos.kills)}, ended {ends}")
            assert_none_is_spoilt(results, episodes)
            await until(lambda: nothing_held(sandboxes, settings), 60)
            assert processes(settings, results) == [], "no process outlives its episode"
            assert folders(settings) == []
            assert mounts_below(home) == []
            assert groups(chaos.hosts) == [], "no control group of any host is left"
            for number, evidence in (await evidence_of(ground, results)).items():
                assert_met_nobody(number, results[number], evidence)


def groups(hosts: Collection[int]) -> list[str]:
    """Control groups that one of these hosts has made."""
    cgroup, mountinfo = (Path(f"/proc/self/{name}").read_text() for name in ("cgroup", "mountinfo"))
    found = {group for place in candidates(cgroup, mountinfo) for group in place.folder.glob("tiltyard.*")}
    return [group.name for group in found if int(group.name.split(".")[1]) in hosts]


def processes(settings: Settings, results: Collection[EpisodeResult]) -> list[list[str]]:
    """Command lines of what runs for these episodes: bwrap by its name, and what their commands have left."""
    marks = {
        mark_of(
            folder_of(settings.sandboxes, SandboxRef(driver="bubblewrap", name=one.episode_id, incarnation=number))
        )
        for one in results
        for number in INCARNATIONS
    }
    lines = [one.info["cmdline"] or [""] for one in psutil.process_iter(["cmdline"])]
    return [line for line in lines if line[0] in marks or LEFT_S in line]


@pytest.mark.timeout(600)
async def test_episodes_with_commands_under_kills_cancels_and_terminates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await wreak(tmp_path / "home", monkeypatch, 20, seed=1)


@pytest.mark.chaos
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(2, 4))
async def test_long_chaos_with_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    await wreak(tmp_path / "home", monkeypatch, 300, seed)
