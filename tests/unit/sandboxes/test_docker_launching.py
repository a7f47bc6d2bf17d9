"""Many launches at once: whoever waits for an image or for the engine keeps nobody else from a thread."""

import asyncio
import os
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from docker.errors import DockerException

from infra.sandboxes.docker.images import ImageRecord, Images
from infra.sandboxes.docker.launcher import DockerLauncher
from infra.sandboxes.docker.supervisors import Supervisors
from infra.sandboxes.threads import in_thread
from schemas.sandbox import SandboxOrder
from tests.contract.sandboxes.docker_engine import mounts_below
from tiltyard.errors import EnvironmentFailed
from tiltyard.testing.memory_sandboxes import MemorySandboxes
from tiltyard.testing.sandbox_bench import SandboxBench

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount what Docker sandboxes write to")

MANY = 40
"""More than asyncio has threads for what is done off the loop on a machine of up to 32 processors."""


class Gate:
    """Where threads stand until it opens."""

    def __init__(self) -> None:
        self.standing, self._open = threading.Semaphore(0), threading.Event()
        self.passed = 0

    def stand(self) -> None:
        self.standing.release()
        self._open.wait()
        self.passed += 1

    def open(self) -> None:
        self._open.set()


class SlowImages(Images):
    """``base`` is there; all others are built, and that waits for the gate."""

    def __init__(self, folder: Path, gate: Gate) -> None:
        self._gate, self._built = gate, {"base"}

    def recorded(self, name: str) -> ImageRecord | None:
        return ImageRecord(name=name, id=f"sha256:{name}", bytes=1) if name in self._built else None

    def get(self, name: str) -> ImageRecord:
        if (found := self.recorded(name)) is None:
            self._gate.stand()
            self._built.add(name)
            found = self.recorded(name)
        assert found is not None
        return found


class Ready(Supervisors):
    """For every image there is one."""

    def __init__(self, folder: Path) -> None:
        self._at = folder

    def of(self, image: str) -> Path:
        return self._at


class Yard:
    """A launcher whose engine makes nothing, at once or when the gate opens."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.gate = folder, Gate()
        self.slow = False
        api = SimpleNamespace(create_host_config=dict, create_container=self._create)
        api.remove_container, api.containers = (lambda name, **_: None), (lambda **_: [])
        engine: Any = SimpleNamespace(api=api, close=lambda: None, end_within=lambda limit_s: None)
        images, self.bench = SlowImages(folder, self.gate), SandboxBench(MemorySandboxes(), "docker")
        self.launcher = DockerLauncher(engine, images, folder, supervisors=Ready(folder))

    def _create(self, *_: object, **__: object) -> None:
        if self.slow:
            self.gate.stand()
        raise DockerException("it makes nothing")

    def begin(self, number: int, image: str) -> list[asyncio.Task[Any]]:
        order: SandboxOrder = self.bench.order().model_copy(update={"image": image})
        launch = self.launcher.launch
        return [asyncio.create_task(launch(order, self.folder / f"box-{one}")) for one in range(number)]


@pytest.fixture
async def yard(tmp_path: Path) -> AsyncIterator[Yard]:
    yard = Yard(tmp_path)
    yield yard
    yard.launcher.close()
    assert mounts_below(tmp_path) == []


async def ends_well(launches: list[asyncio.Task[Any]]) -> None:
    """All fail, for this engine makes nothing."""
    failures = await asyncio.gather(*launches, return_exceptions=True)
    assert {type(failure) for failure in failures} == {EnvironmentFailed}


async def test_many_who_wait_for_one_image_keep_nobody_from_a_thread(yard: Yard) -> None:
    async with asyncio.timeout(60):
        waiting = yard.begin(MANY, "numbers")
        try:
            await in_thread(yard.gate.standing.acquire)
            assert await in_thread(lambda: "a thread") == "a thread"
        finally:
            yard.gate.open()
        await ends_well(waiting)
    assert yard.gate.passed == 1, "it was built more than once"


async def test_many_who_wait_for_the_engine_keep_nobody_from_a_thread(yard: Yard) -> None:
    yard.slow = True
    async with asyncio.timeout(60):
        waiting = yard.begin(MANY, "base")
        try:
            await in_thread(yard.gate.standing.acquire)
            assert await in_thread(lambda: "a thread") == "a thread"
        finally:
            yard.gate.open()
        await ends_well(waiting)
