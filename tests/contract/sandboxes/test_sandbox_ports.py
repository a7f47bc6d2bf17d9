"""The conformance kit on the host itself and through its socket, on every driver that works here."""

import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

from infra.sandboxes.bubblewrap import BubblewrapLauncher
from infra.sandboxes.client import HostClient
from infra.sandboxes.host import SandboxHost
from infra.sandboxes.launching import Launcher
from infra.sandboxes.serve import serving
from infra.sandboxes.unsafe_local import UnsafeLocalLauncher
from tests.contract.sandboxes.memory_launcher import MemoryLauncher
from tiltyard.ports import Sandboxes
from tiltyard.testing.sandbox_kit import (
    ISOLATED_CHECKS,
    PROCESS_CHECKS,
    SANDBOX_CHECKS,
    SandboxBench,
    SandboxCheck,
)

SLOTS = 4

Opened = Callable[[Launcher, Path], AbstractAsyncContextManager[Sandboxes]]


@asynccontextmanager
async def host(launcher: Launcher, folder: Path) -> AsyncIterator[Sandboxes]:
    async with SandboxHost({launcher.driver: launcher}, folder, SLOTS) as made:
        yield made
        assert await made.sandboxes() == ()
        assert list(folder.iterdir()) == [], "a folder is left"


@asynccontextmanager
async def client(launcher: Launcher, folder: Path) -> AsyncIterator[Sandboxes]:
    with tempfile.TemporaryDirectory() as runtime:
        path = Path(runtime) / "sandboxes.sock"
        async with host(launcher, folder) as made, serving(made, path), HostClient(path) as asked:
            yield asked


@pytest.mark.parametrize("port", [host, client], ids=["host", "client"])
@pytest.mark.parametrize("check", SANDBOX_CHECKS, ids=lambda check: check.__name__)
async def test_a_driver_without_processes(port: Opened, check: SandboxCheck, tmp_path: Path) -> None:
    launcher = MemoryLauncher()
    async with port(launcher, tmp_path) as sandboxes:
        await check(SandboxBench(sandboxes, launcher.driver))
    assert launcher.places == set()


@pytest.mark.parametrize("port", [host, client], ids=["host", "client"])
@pytest.mark.parametrize(
    "check", SANDBOX_CHECKS + PROCESS_CHECKS + ISOLATED_CHECKS, ids=lambda check: check.__name__
)
async def test_bubblewrap(
    port: Opened, check: SandboxCheck, bubblewrap: BubblewrapLauncher, tmp_path: Path
) -> None:
    async with port(bubblewrap, tmp_path) as sandboxes:
        await check(SandboxBench(sandboxes, bubblewrap.driver))


@pytest.mark.parametrize("check", SANDBOX_CHECKS + PROCESS_CHECKS, ids=lambda check: check.__name__)
async def test_unsafe_local(check: SandboxCheck, tmp_path: Path) -> None:
    launcher = UnsafeLocalLauncher()
    async with host(launcher, tmp_path) as sandboxes:
        await check(SandboxBench(sandboxes, launcher.driver))
