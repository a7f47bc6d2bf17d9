"""The drivers that start processes, one of each for all tests: a launcher tries this machine once."""

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from filelock import FileLock

from infra.sandboxes.bubblewrap import BubblewrapLauncher
from infra.sandboxes.docker.images import Images
from infra.sandboxes.docker.launcher import DockerLauncher
from infra.sandboxes.docker.recipes import BASE
from infra.sandboxes.host import SandboxHost
from infra.sandboxes.launching import Launcher
from tests.contract.sandboxes.abuse_yard import Watched, Yard, descendants, mounts
from tests.contract.sandboxes.docker_engine import engine_or_skip


@pytest.fixture(scope="session")
def bubblewrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BubblewrapLauncher]:
    launcher = BubblewrapLauncher(tmp_path_factory.mktemp("bubblewrap"))
    offer = launcher.offer()
    if not offer.available:
        pytest.skip(f"bubblewrap does not work here: {offer.problem}")
    yield launcher
    launcher.close()


@pytest.fixture(scope="session")
def docker_images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that knows the base image, which is built once for all tests."""
    engine, folder = engine_or_skip(), tmp_path_factory.getbasetemp().parent / "docker-images"
    folder.mkdir(exist_ok=True)
    with engine, FileLock(folder / "lock"):
        Images(engine, folder).get(BASE)
    return folder


@pytest.fixture(scope="module", params=["bubblewrap", "docker"])
async def yard(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Yard]:
    """A host for the sandboxes of one file of tests, of each driver; afterwards the machine is as it was."""
    folder = tmp_path_factory.mktemp("boxes")
    before = mounts()
    with _launcher(request, folder) as launcher:
        watched = Watched(launcher)
        async with SandboxHost({launcher.driver: watched}, folder / "sandboxes", slots=8) as host:
            yield Yard(host, launcher.driver, watched=watched)
            assert await host.sandboxes() == ()
    assert list((folder / "sandboxes").iterdir()) == []
    assert descendants() == []
    assert mounts() == before


@contextmanager
def _launcher(request: pytest.FixtureRequest, folder: Path) -> Iterator[Launcher]:
    if request.param == "bubblewrap":
        yield request.getfixturevalue("bubblewrap")
        return
    images = request.getfixturevalue("docker_images")
    with engine_or_skip() as engine:
        yield DockerLauncher(engine, Images(engine, images), folder / "shared")
