"""The drivers that start processes, one of each for all tests: a launcher tries this machine once."""

from collections.abc import Iterator

import pytest

from infra.sandboxes.bubblewrap import BubblewrapLauncher


@pytest.fixture(scope="session")
def bubblewrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BubblewrapLauncher]:
    launcher = BubblewrapLauncher(tmp_path_factory.mktemp("bubblewrap"))
    offer = launcher.offer()
    if not offer.available:
        pytest.skip(f"bubblewrap does not work here: {offer.problem}")
    yield launcher
    launcher.close()
