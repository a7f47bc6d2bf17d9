"""The drivers that start processes, one of each for all tests: a launcher tries this machine once."""

from collections.abc import AsyncIterator, Iterator

import pytest

from infra.sandboxes.bubblewrap import BubblewrapLauncher
from infra.sandboxes.host import SandboxHost
from tests.contract.sandboxes.abuse_yard import Watched, Yard, descendants, mounts


@pytest.fixture(scope="session")
def bubblewrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BubblewrapLauncher]:
    launcher = BubblewrapLauncher(tmp_path_factory.mktemp("bubblewrap"))
    offer = launcher.offer()
    if not offer.available:
        pytest.skip(f"bubblewrap does not work here: {offer.problem}")
    yield launcher
    launcher.close()


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
