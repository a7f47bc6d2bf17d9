"""The list of shipped worlds."""

import pytest

from tiltyard.testing.memory_worlds import MemoryWorlds
from tiltyard.worlds.engine import Engine
from tiltyard.worlds.registry import worlds


@pytest.mark.parametrize("name", list(worlds()))
def test_every_shipped_world_loads_under_its_own_name_and_has_the_engine_tools(name: str) -> None:
    assert worlds()[name].name == name
    tools = {tool.name for tool in Engine(worlds(), MemoryWorlds()).describe(name)}
    assert {"wait", "get_receipt"} < tools


def test_an_unknown_world_is_no_key() -> None:
    with pytest.raises(KeyError):
        worlds()["atlantis"]
