"""A driver and a policy's folder."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from infra.policies.driver import PolicyDriver
from schemas.episode import EpisodeSpec, PolicySpec
from tests.contract.policies_port.bench import Open, Write, task
from tiltyard.policies.catalogue import open_script, shipped
from tiltyard.ports import OpenPolicy


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = (tmp_path / "policy").resolve()
    made.mkdir()
    return made


@pytest.fixture
def write(folder: Path) -> Write:
    def write(source: str) -> Path:
        path = folder / "bot.py"
        path.write_text(source)
        return path

    return write


@pytest.fixture
async def driver() -> AsyncIterator[PolicyDriver]:
    made = PolicyDriver(open_script, shipped)
    yield made
    await made.aclose()


@pytest.fixture
def opened(driver: PolicyDriver, folder: Path) -> Open:
    async def open_policy(target: str, *, turn_s: float = 60, episode_id: str = "ep-1") -> OpenPolicy:
        wanted = task(turn_s)
        spec = EpisodeSpec(
            episode_id=episode_id,
            task_id=wanted.id,
            task_digest=wanted.digest,
            world=wanted.world,
            policy=PolicySpec(target=target, directory=str(folder)),
            limits=wanted.limits,
        )
        return await driver.open(episode_id, spec, wanted)

    return open_policy
