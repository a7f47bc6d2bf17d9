"""The real stack, used without the command line. One for all tests of this folder."""

from collections.abc import AsyncIterator, Iterator

import pytest

from infra.local.stack import bring_up, take_down
from ops.cli.on_demand import stack_config
from workers.bootstrap.ground import open_ground
from workers.ground import Ground
from workers.settings import Settings


@pytest.fixture(scope="package")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    """Settings of a running stack."""
    wanted = Settings.from_environment(tmp_path_factory.mktemp("ground"))
    config = stack_config(wanted)
    state = bring_up(config, print, pinned=True)
    yield wanted.model_copy(update={"temporal_address": state.address})
    take_down(config.paths, print)


@pytest.fixture
async def ground(settings: Settings) -> AsyncIterator[Ground]:
    async with open_ground(settings) as opened:
        yield opened
