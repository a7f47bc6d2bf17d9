"""Those who hold a sandbox die: in the middle of a command, of a provision, and of everything."""

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from infra.sandboxes.boxed import mark_of
from infra.sandboxes.bubblewrap import BubblewrapLauncher
from infra.sandboxes.client import HostClient
from infra.sandboxes.host import SandboxHost
from infra.sandboxes.records import folder_of
from infra.sandboxes.serve import serving
from infra.sandboxes.stage import CODE
from schemas.sandbox import DriverName, SandboxRef
from tests.contract.sandboxes.abuse_yard import Yard, until
from tests.contract.sandboxes.docker_engine import containers_below, docker_host, engine_or_skip, mounts_below
from tiltyard.errors import SandboxLost, SandboxUnreachable
from tiltyard.testing.sandbox_bench import Box, SandboxBench

DOOMED = SandboxRef(driver="bubblewrap", name="doomed", incarnation=1)


async def test_a_client_that_dies_in_the_middle_of_a_command_asks_again(yard: Yard) -> None:
    assert isinstance(yard.port, SandboxHost)
    with tempfile.TemporaryDirectory() as runtime:
        path = Path(runtime) / "sandboxes.sock"
        async with serving(yard.port, path), yard.sandbox() as box:
            script = box.script("echo ran >> log; until [ -e go ]; do sleep 0.01; done; echo done", op_id="once")
            async with HostClient(path) as first:
                asked = asyncio.create_task(first.call(box.ref, script))
                await box.appears("log")
            with pytest.raises(SandboxUnreachable):
                await asked
            async with HostClient(path) as second:
                again = asyncio.create_task(second.call(box.ref, script))
                await box.put("go", b"")
                reply = await again
            assert reply.exec is not None
            assert (reply.exec.exit_code, reply.exec.stdout.text) == (0, "done\n")
            assert await box.content("log") == b"ran\n"


def start_doomed(
    folder: Path, moment: str, driver: DriverName = "bubblewrap", stage: Path | None = None
) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "tests.contract.sandboxes.doomed_host", driver]
    return subprocess.Popen(
        [*command, str(folder / "sandboxes"), str(stage or folder / "stage"), moment],
        cwd=CODE,
        stdout=subprocess.PIPE,
        text=True,
    )


def marked(folder: Path) -> list[psutil.Process]:
    """The doomed sandbox's bwrap and all that lives below it."""
    mark = mark_of(folder_of(folder / "sandboxes", DOOMED))
    found = [
        process for process in psutil.process_iter(["cmdline"]) if (process.info["cmdline"] or [""])[0] == mark
    ]
    for process in tuple(found):
        with suppress(psutil.NoSuchProcess):
            found += process.children(recursive=True)
    return found


def groups_of(pid: int) -> list[Path]:
    return list(Path("/sys/fs/cgroup").glob(f"**/tiltyard.{pid}.*"))


async def sweep(folder: Path, expected: str) -> None:
    """What the next host does, and that nothing is left after it."""
    launcher = BubblewrapLauncher(folder / "stage")
    try:
        assert launcher.offer().available
        async with SandboxHost({"bubblewrap": launcher}, folder / "sandboxes", slots=2) as host:
            there = await host.sandboxes()
            assert [(one.ref, one.state) for one in there] == ([(DOOMED, expected)] if expected else [])
            box = Box(bench := SandboxBench(host, "bubblewrap"), bench.order(name="doomed"))
            if expected:
                with pytest.raises(SandboxLost):
                    await box.sh("true", op_id="kit-1")
                await host.release(DOOMED)
            else:
                await box.provision()
                await box.sh("test ! -e running")
                await host.release(box.ref)
            assert await host.sandboxes() == ()
    finally:
        launcher.close()
    assert list((folder / "sandboxes").iterdir()) == []
    assert marked(folder) == []


@pytest.mark.parametrize("supervisor", ["at work", "hangs"])
async def test_a_host_that_is_killed_leaves_nothing_alive(
    bubblewrap: BubblewrapLauncher, tmp_path: Path, supervisor: str
) -> None:
    with start_doomed(tmp_path, "never") as doomed:
        assert doomed.stdout
        assert await asyncio.to_thread(doomed.stdout.readline) == "there\n"
        inside = marked(tmp_path)
        assert len(inside) >= 4, "bwrap, the supervisor, the command and the one that it left"
        if supervisor == "hangs":  # so that it does not see that its host has gone
            os.kill(inside[0].children()[0].pid, signal.SIGSTOP)
        doomed.kill()
    await until(lambda: not any(map(living, inside)), "they end with their host, before any other host comes")
    await sweep(tmp_path, expected="lost")
    assert groups_of(doomed.pid) == []


@pytest.mark.parametrize("moment", ["before", "2", "5", "after"])
async def test_a_host_that_is_killed_in_a_provision(
    bubblewrap: BubblewrapLauncher, tmp_path: Path, moment: str
) -> None:
    """bwrap may not have asked yet to be ended with whoever started it (bubblewrap 633)."""
    with start_doomed(tmp_path, moment) as doomed:
        assert await asyncio.to_thread(doomed.wait) == -signal.SIGKILL
    await sweep(tmp_path, expected="")
    assert groups_of(doomed.pid) == []


@pytest.mark.parametrize("moment", ["before", "20", "150", "400", "after"])
async def test_a_host_that_is_killed_while_it_makes_a_container(
    docker_images: Path, tmp_path: Path, moment: str
) -> None:
    """It may have been created, and started, and nobody was told of it: its mark is older than it
    (benchflow 554)."""
    with start_doomed(tmp_path, moment, "docker", docker_images) as doomed:
        assert await asyncio.to_thread(doomed.wait) == -signal.SIGKILL
    async with docker_host(tmp_path, docker_images) as host:
        await host.sweep()
        assert await host.sandboxes() == ()
        with engine_or_skip() as engine:
            await until(lambda: not containers_below(engine, tmp_path), "a container is left")
        async with SandboxBench(host, "docker").sandbox() as box:
            await box.sh("test ! -e running")
    assert mounts_below(tmp_path) == []
    assert list((tmp_path / "sandboxes").iterdir()) == []


async def test_a_sandbox_whose_first_process_is_killed_is_lost_and_leaves_nothing(yard: Yard) -> None:
    async with yard.sandbox() as box:
        asked = asyncio.create_task(box.sh("(setsid sleep 1000 &); touch running; sleep 1000", timeout_s=1000))
        await box.appears("running")
        launched = yard.watched.launched[box.order.name]
        os.kill(min(launched.processes()), signal.SIGKILL)
        with pytest.raises(SandboxLost):
            await asked
        await until(lambda: launched.processes() == (), "all of a namespace ends with its first process")
        with pytest.raises(SandboxLost):
            await box.sh("true")


def living(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
