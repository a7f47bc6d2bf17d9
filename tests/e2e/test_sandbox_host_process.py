"""The sandbox host as a process: killed, ended, started twice; and how little it loads."""

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import psutil
import pytest

from infra.sandboxes.client import HostClient
from infra.sockets import listening
from schemas.operation import ExecRequest
from schemas.sandbox import DriverName, SandboxOrder, SandboxRef
from tests.eventually import eventually
from tiltyard.errors import SandboxLost, SandboxUnreachable, StackFailed
from tiltyard.testing.sandbox_bench import OWNER
from workers.bootstrap.sandboxes import open_host
from workers.settings import Settings

DRIVERS: tuple[DriverName, ...] = ("bubblewrap", "unsafe-local")
LIMIT_S = 60.0


@dataclass
class HostProcess:
    """A host of its own data folder, started as the stack does."""

    settings: Settings
    process: "subprocess.Popen[bytes]"

    async def start_again(self) -> None:
        self.process = await started(self.settings)

    async def end(self, number: signal.Signals) -> int:
        self.process.send_signal(number)
        return await asyncio.to_thread(self.process.wait, LIMIT_S)


async def started(settings: Settings) -> "subprocess.Popen[bytes]":
    environment = {
        "PATH": os.defpath,
        "TILTYARD_HOME": str(settings.home),
        "TILTYARD_RUNTIME": str(settings.runtime),
        "TILTYARD_SANDBOXES": "2",
    }
    process = subprocess.Popen([sys.executable, "-P", "-m", "workers.sandbox_host"], env=environment)
    await until(lambda: listening(settings.sandboxes_socket))
    return process


async def until(holds: Callable[[], bool]) -> None:
    await asyncio.to_thread(eventually, holds, "what the test waits for", LIMIT_S)


@pytest.fixture
async def host(tmp_path: Path) -> AsyncIterator[HostProcess]:
    with tempfile.TemporaryDirectory() as runtime:
        settings = Settings(home=tmp_path, runtime=Path(runtime))
        made = HostProcess(settings, await started(settings))
        yield made
        if made.process.poll() is None:
            await made.end(signal.SIGTERM)


@pytest.fixture
async def client(host: HostProcess) -> AsyncIterator[HostClient]:
    async with HostClient(host.settings.sandboxes_socket) as made:
        yield made


@pytest.fixture(params=DRIVERS)
async def driver(request: pytest.FixtureRequest, client: HostClient) -> DriverName:
    offer = await client.offer(request.param)
    if not offer.available:
        pytest.skip(f"{offer.driver} does not work here: {offer.problem}")
    return offer.driver


@dataclass
class Busy:
    """A sandbox in the middle of a command, with a child that has left the command's session.

    Both carry a mark in their arguments by which they are found from outside.
    """

    order: SandboxOrder
    ref: SandboxRef
    request: ExecRequest
    mark: str

    def processes(self) -> list[int]:
        """Those of the sandbox that run now."""
        return [one.pid for one in psutil.process_iter(["cmdline"]) if self.mark in (one.info["cmdline"] or ())]


async def busy(client: HostClient, driver: DriverName) -> tuple[Busy, "asyncio.Task[object]"]:
    name = uuid4().hex
    order = SandboxOrder(driver=driver, name=name, incarnation=1, owner=OWNER, episode_id=name)
    mark = f"600.{int(name[:8], 16)}"
    argv = ("/bin/sh", "-c", f"setsid sleep {mark} & sleep {mark}")
    made = Busy(order, await client.provision(order), ExecRequest(op_id="one", argv=argv, timeout_s=600), mark)
    asked: asyncio.Task[object] = asyncio.create_task(client.call(made.ref, made.request))
    await until(lambda: len(made.processes()) == 2)
    return made, asked


async def test_a_killed_host_takes_its_sandboxes_along_and_the_next_one_tells_of_them(
    host: HostProcess, client: HostClient, driver: DriverName
) -> None:
    found, asked = await busy(client, driver)
    await host.end(signal.SIGKILL)
    with pytest.raises(SandboxUnreachable):
        await asked
    await until(lambda: found.processes() == [])
    await host.start_again()
    assert [(one.ref, one.state) for one in await client.sandboxes()] == [(found.ref, "lost")]
    for attempt in (client.call(found.ref, found.request), client.provision(found.order)):
        with pytest.raises(SandboxLost):
            await attempt
    later = await client.provision(found.order.model_copy(update={"incarnation": 2}))
    assert [(one.ref, one.state) for one in await client.sandboxes()] == [(later, "live")]
    await client.release(later)
    assert list(host.settings.sandboxes.iterdir()) == []


async def test_a_host_that_is_asked_to_end_ends_its_sandboxes_first(
    host: HostProcess, client: HostClient, driver: DriverName
) -> None:
    found, asked = await busy(client, driver)
    assert await host.end(signal.SIGTERM) == 0
    assert found.processes() == []
    with pytest.raises((SandboxUnreachable, SandboxLost)):
        await asked
    await host.start_again()
    assert [one.state for one in await client.sandboxes()] == ["lost"]


async def test_a_killed_supervisor_is_a_lost_sandbox_and_not_a_lost_host(
    host: HostProcess, client: HostClient, driver: DriverName
) -> None:
    found, asked = await busy(client, driver)
    for child in psutil.Process(host.process.pid).children():
        child.kill()
    with pytest.raises(SandboxLost):
        await asked
    await until(lambda: found.processes() == [])
    assert [one.state for one in await client.sandboxes()] == ["lost"]
    await client.release(found.ref)
    assert await client.sandboxes() == ()


async def test_a_client_that_goes_ends_nothing(host: HostProcess, client: HostClient, driver: DriverName) -> None:
    """As a worker that is killed: the next one attaches to the same command, and it has run once."""
    found, asked = await busy(client, driver)
    before = found.processes()
    asked.cancel()
    await client.close()
    async with HostClient(host.settings.sandboxes_socket) as other:
        assert await other.provision(found.order) == found.ref
        again = asyncio.create_task(other.call(found.ref, found.request))
        await other.sandboxes()
        assert (found.processes(), again.done()) == (before, False)
        await other.release(found.ref)
        with pytest.raises(SandboxLost):
            await again
    assert found.processes() == []


async def test_a_data_folder_has_one_host(host: HostProcess, tmp_path: Path) -> None:
    elsewhere = Settings(home=tmp_path, runtime=tmp_path / "another")
    with pytest.raises(StackFailed, match="another process hosts the sandboxes"):
        async with open_host(elsewhere, within_s=0):
            pass
    await host.end(signal.SIGKILL)
    async with open_host(elsewhere):
        pass


def test_the_host_loads_little() -> None:
    """It is started with every stack, and each sandbox begins as a copy of a part of it."""
    heavy = ("temporalio", "grpc", "sqlmodel", "sqlalchemy", "minio", "yaml", "jinja2")
    code = f"import sys, workers.sandbox_host; print([one for one in {heavy} if one in sys.modules])"
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.stdout.strip(), done.returncode) == ("[]", 0), done.stderr
