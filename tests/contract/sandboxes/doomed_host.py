"""A sandbox host that SIGKILL ends at a moment of its first provision: ``doomed_host DRIVER FOLDER STAGE MOMENT``.

``STAGE`` is what a bubblewrap launcher has for its own, and for Docker the folder that knows the images.
Moments: ``before`` and ``after`` the launch, a number of milliseconds from its beginning, or ``never``: then it
says ``there`` when a command runs in the sandbox, and waits to be killed.
"""

import asyncio
import os
import signal
import sys
import threading
from pathlib import Path

from infra.sandboxes.bubblewrap import BubblewrapLauncher
from infra.sandboxes.docker.engine import connected
from infra.sandboxes.docker.images import Images
from infra.sandboxes.docker.launcher import DockerLauncher
from infra.sandboxes.host import SandboxHost
from infra.sandboxes.launching import Launched, Launcher
from schemas.sandbox import DriverName, SandboxOffer, SandboxOrder
from tiltyard.testing.sandbox_bench import Box, SandboxBench


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class Doomed:
    """The driver, and the moment."""

    def __init__(self, launcher: Launcher, moment: str) -> None:
        self._launcher, self._moment, self.driver = launcher, moment, launcher.driver

    def offer(self) -> SandboxOffer:
        return self._launcher.offer()

    async def launch(self, order: SandboxOrder, folder: Path) -> Launched:
        if self._moment == "before":
            die()
        if self._moment.isdigit():
            threading.Timer(int(self._moment) / 1000, die).start()
        launched = await self._launcher.launch(order, folder)
        if self._moment == "after":
            die()
        return launched

    async def find(self, identity: dict[str, object]) -> None:
        """None outlives its host."""

    def sweep(self, identity: dict[str, object]) -> bool:
        return self._launcher.sweep(identity)

    def strays(self) -> int:
        return self._launcher.strays()


def launcher_of(driver: DriverName, folder: Path, stage: Path) -> Launcher:
    if driver == "bubblewrap":
        return BubblewrapLauncher(stage)
    engine = connected()
    return DockerLauncher(engine, Images(engine, stage), folder.with_name("shared"))


async def main(driver: DriverName, folder: Path, stage: Path, moment: str) -> None:
    launcher = Doomed(launcher_of(driver, folder, stage), moment)
    async with SandboxHost({driver: launcher}, folder, slots=2) as host:
        bench = SandboxBench(host, driver)
        box = Box(bench, bench.order(name="doomed"))
        await box.provision()
        running = asyncio.create_task(box.sh("(setsid sleep 1000 &); touch running; sleep 1000", timeout_s=1000))
        await box.appears("running")
        print("there", flush=True)
        await running


if __name__ == "__main__":
    driver: DriverName = "docker" if sys.argv[1] == "docker" else "bubblewrap"
    asyncio.run(main(driver, Path(sys.argv[2]), Path(sys.argv[3]), sys.argv[4]))
