"""A stack of fake processes under the real supervisor."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.local.config import StackConfig
from infra.local.processes import alive
from infra.local.runtime import runtime_folder
from infra.local.stack import look
from tests.eventually import eventually
from tests.unit.stack.stack_yard import FAKE, QUICK, Yard


@pytest.fixture
def yard(tmp_path: Path) -> Iterator[Yard]:
    home, steering = tmp_path / "home", tmp_path / "steering"
    steering.mkdir()
    runtime = runtime_folder(home)
    config = StackConfig(
        home=home,
        runtime=runtime,
        code="sha256:one",
        temporal=(sys.executable, str(FAKE), "temporal", str(steering)),
        world=(sys.executable, str(FAKE), "world", str(steering), str(runtime / "world.sock")),
        sandboxes=(sys.executable, str(FAKE), "sandboxes", str(steering), str(runtime / "sandboxes.sock")),
        worker=(sys.executable, str(FAKE), "worker", str(steering), str(runtime / "worker.ready")),
        world_socket=runtime / "world.sock",
        sandboxes_socket=runtime / "sandboxes.sock",
        patience=QUICK,
    )
    made = Yard(config, steering)
    yield made
    recorded = made.everything() if look(config.paths) else []
    made.down()
    eventually(lambda: not any(map(alive, recorded)), "the end of every process")
