"""A sandbox host over the driver without processes, which may be killed and started again."""

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from infra.sandboxes.host import SandboxHost
from infra.sandboxes.patience import PATIENCE, Patience
from schemas.operation import ExecRequest
from schemas.sandbox import SandboxOrder, SandboxRef
from tests.contract.sandboxes.memory_launcher import MemoryLaunched, MemoryLauncher
from tiltyard.testing.sandbox_bench import OWNER

SHORT = Patience(answer_s=0.05, drain_s=0.05, alone_s=0.05)
SLEEP = ExecRequest(op_id="sleep", argv=("/bin/sh", "-c", "sleep 1000"), timeout_s=1000)
TRUE = ExecRequest(op_id="true", argv=("/bin/sh", "-c", "true"), timeout_s=10)


def order(name: str = "one", incarnation: int = 1) -> SandboxOrder:
    return SandboxOrder(
        driver="bubblewrap", name=name, incarnation=incarnation, owner=OWNER, episode_id=f"of {name}"
    )


class Yard:
    """Hosts of one folder and their driver. ``start`` leaves the one before as a killed process does."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.launcher = folder, MemoryLauncher()
        self.hosts: list[SandboxHost] = []
        self.slots = 0

    async def start(self, slots: int = 2, patience: Patience = PATIENCE) -> SandboxHost:
        self.slots = slots
        self.hosts.append(SandboxHost({"bubblewrap": self.launcher}, self.folder, slots, patience))
        return await self.hosts[-1].__aenter__()

    @property
    def last(self) -> MemoryLaunched:
        return self.launcher.launched[-1]


@asynccontextmanager
async def open_yard(folder: Path) -> AsyncIterator[Yard]:
    """A yard; in the end nothing is left in it, and there were never more sandboxes than slots."""
    made = Yard(folder)
    yield made
    assert made.launcher.most <= made.slots, "more were there at once than slots"
    made.launcher.stuck = False
    for host in made.hosts:
        await host.__aexit__()
    assert made.launcher.places == set(), "something is left"


async def states(host: SandboxHost) -> dict[str, str]:
    return {f"{one.ref.name}/{one.ref.incarnation}": one.state for one in await host.sandboxes()}


async def waits(host: SandboxHost, asked: SandboxOrder) -> "asyncio.Task[SandboxRef]":
    """A provision that is in the queue now."""
    task = asyncio.create_task(host.provision(asked))
    for _ in range(10):
        await asyncio.sleep(0)
    assert not task.done()
    return task


async def sealed(host: SandboxHost) -> SandboxRef:
    ref = await host.provision(order())
    await host.seal(ref)
    return ref


class Slow:
    """Ends and sweeps of a driver that wait until the test has done something else meanwhile."""

    def __init__(self, launcher: MemoryLauncher) -> None:
        self._begun, self._enough = threading.Event(), threading.Event()
        self.alone = False
        launcher.while_ending = self._wait

    def _wait(self) -> None:
        self._begun.set()
        self.alone = not self._enough.wait(10)
        assert not self.alone, "nothing else is done while a sandbox is ended"

    async def begun(self) -> None:
        assert await asyncio.to_thread(self._begun.wait, 10)

    def enough(self) -> None:
        self._enough.set()
