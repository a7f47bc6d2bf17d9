"""The drivers that start processes, one of each for all tests: a launcher tries this machine once."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from infra.sandboxes.bubblewrap import BubblewrapLauncher
from infra.sandboxes.docker.images import Images
from infra.sandboxes.docker.launcher import DockerLauncher
from infra.sandboxes.docker.places import FOLDER
from infra.sandboxes.host import SandboxHost
from tests.contract.sandboxes.abuse_yard import BUBBLEWRAP, DOCKER, Watched, Yard, descendants, mounts
from tests.contract.sandboxes.docker_engine import engine_or_skip, mounts_below


@pytest.fixture(scope="session")
def bubblewrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BubblewrapLauncher]:
    launcher = BubblewrapLauncher(tmp_path_factory.mktemp("bubblewrap"))
    offer = launcher.offer()
    if not offer.available:
        pytest.skip(f"bubblewrap does not work here: {offer.problem}")
    yield launcher
    launcher.close()


@pytest.fixture(scope="module", params=["bubblewrap", "docker"])
async def yard(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Yard]:
    """A host for the sandboxes of one file of tests, for each driver; afterwards the machine is as it was."""
    folder = tmp_path_factory.mktemp("boxes")
    async with YARDS[request.param](request, folder) as made:
        yield made
        assert await made.port.sandboxes() == ()
    assert list((folder / "boxes").iterdir()) == []


@asynccontextmanager
async def bubblewrap_yard(request: pytest.FixtureRequest, folder: Path) -> AsyncIterator[Yard]:
    watched = Watched(request.getfixturevalue("bubblewrap"))
    before = mounts()
    async with SandboxHost({"bubblewrap": watched}, folder / "boxes", slots=8) as host:
        yield Yard(host, "bubblewrap", watched=watched, expected=BUBBLEWRAP)
    assert descendants() == []
    assert mounts() == before


@asynccontextmanager
async def docker_yard(request: pytest.FixtureRequest, folder: Path) -> AsyncIterator[Yard]:
    images = request.getfixturevalue("docker_images")
    with engine_or_skip() as engine:
        watched = Watched(DockerLauncher(engine, Images(engine, images), folder / "shared"))
        async with SandboxHost({"docker": watched}, folder / "boxes", slots=4) as host:
            yield Yard(host, "docker", watched=watched, expected=DOCKER)
        left = engine.api.containers(all=True, filters={"label": FOLDER})
        assert not [one for one in left if Path(one["Labels"][FOLDER]).is_relative_to(folder)]
    assert mounts_below(folder) == []


YARDS = {"bubblewrap": bubblewrap_yard, "docker": docker_yard}
