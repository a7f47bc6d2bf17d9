"""Signs of life of true supervisors: a frozen one is noticed, and one that its agent keeps busy is not dead."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from infra.sandboxes.docker.images import Images
from infra.sandboxes.docker.launcher import DockerLauncher
from infra.sandboxes.host import SandboxHost
from infra.sandboxes.patience import Patience
from schemas.sandbox import SandboxLimits
from tests.contract.sandboxes.abuse_yard import Watched, python
from tests.contract.sandboxes.docker_engine import engine_or_skip
from tiltyard.errors import SandboxLost
from tiltyard.testing.sandbox_bench import Box, SandboxBench

if TYPE_CHECKING:
    from collections.abc import Iterator

    from infra.sandboxes.launching import Launcher

IMPATIENT = Patience(ping_s=1.5)
"""A supervisor is dead after three seconds of silence. Under load it answers within some hundredths."""

FEW = SandboxLimits(processes=32)

BUSY = """
import os, subprocess, sys
if os.fork():
    while True: os.write(1, b"x" * 65536); os.write(2, b"y" * 65536)
if os.fork():
    while True: subprocess.run(["/bin/true"], stderr=subprocess.DEVNULL)
while True:
    try: os.fork()
    except OSError: pass
"""
"""A flood of output, one of programs, and a fork bomb."""


@dataclass(frozen=True)
class Hosted:
    """A host that is impatient, and what its driver has launched."""

    bench: SandboxBench
    watched: Watched

    def first(self, box: Box) -> int:
        """The supervisor, from outside."""
        return self.watched.launched[box.order.name].processes()[0]


@contextmanager
def docker_launcher(request: pytest.FixtureRequest, folder: Path) -> "Iterator[Launcher]":
    images = request.getfixturevalue("docker_images")
    with engine_or_skip() as engine:
        launcher = DockerLauncher(engine, Images(engine, images), folder)
        yield launcher
        launcher.close()


@pytest.fixture(params=["bubblewrap", "docker"])
async def hosted(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Hosted]:
    @contextmanager
    def bubblewrap_launcher() -> "Iterator[Launcher]":
        yield request.getfixturevalue("bubblewrap")

    opened = (
        bubblewrap_launcher() if request.param == "bubblewrap" else docker_launcher(request, tmp_path / "docker")
    )
    with opened as launcher:
        watched = Watched(launcher)
        async with SandboxHost({launcher.driver: watched}, tmp_path / "boxes", 2, IMPATIENT) as host:
            yield Hosted(SandboxBench(host, launcher.driver), watched)
            assert await host.sandboxes() == ()
        assert all(launched.processes() == () for launched in watched.launched.values())


async def test_a_frozen_supervisor_is_noticed_and_its_command_is_lost_with_it(hosted: Hosted) -> None:
    """The command is allowed a thousand seconds, and sleeps on; nobody waits for it so long."""
    async with hosted.bench.sandbox() as box:
        asked = asyncio.create_task(box.sh("echo begun > log; sleep 1000", timeout_s=1000))
        await box.appears("log")
        os.kill(hosted.first(box), signal.SIGSTOP)
        with pytest.raises(SandboxLost, match="no sign of life"):
            await asked
        assert [one.state for one in await box.port.sandboxes()] == ["lost"]


async def test_a_supervisor_that_its_agent_keeps_busy_is_not_taken_for_dead(hosted: Hosted) -> None:
    async with hosted.bench.sandbox(limits=FEW) as box:
        ended = await python(box, BUSY, timeout_s=6 * IMPATIENT.ping_s)
        assert ended.timed_out
        assert ended.stdout.total_bytes > 0
        assert [one.state for one in await box.port.sandboxes()] == ["live"]
        assert (await box.sh("echo still here")).stdout.text == "still here\n"
