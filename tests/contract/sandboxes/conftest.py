"""The drivers that start processes, one of each for all tests: a launcher tries this machine once."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from filelock import FileLock

from infra.sandboxes.bubblewrap import BubblewrapLauncher
from infra.sandboxes.docker.images import Images
from infra.sandboxes.docker.recipes import BASE
from infra.sandboxes.host import SandboxHost
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
    folder = tmp_path_factory.getbasetemp().parent / "docker-images"
    folder.mkdir(exist_ok=True)
    with engine_or_skip() as engine, FileLock(folder / "lock"):
        Images(engine, folder).get(BASE)
    return folder


@pytest.fixture(scope="module")
async def yard(bubblewrap: BubblewrapLauncher, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Yard]:
    """A host for the sandboxes of one file of tests; afterwards the machine is as it was."""
    folder = tmp_path_factory.mktemp("boxes")
    before = mounts()
    watched = Watched(bubblewrap)
    async with SandboxHost({"bubblewrap": watched}, folder, slots=8) as host:
        yield Yard(host, "bubblewrap", watched=watched)
        assert await host.sandboxes() == ()
    assert list(folder.iterdir()) == []
    assert descendants() == []
    assert mounts() == before
