"""The Docker driver keeps the promises of the port, and its sandboxes outlive their host."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import docker
import pytest

from infra.sandboxes import records
from infra.sandboxes.host import SandboxHost
from infra.sandboxes.records import Kept
from schemas.sandbox import SandboxLimits, SandboxRef
from tests.contract.sandboxes.docker_engine import containers_of, docker_host, engine_or_skip, mounts_below
from tiltyard.errors import EnvironmentFailed, SandboxUnavailable
from tiltyard.testing.sandbox_bench import Box, SandboxBench
from tiltyard.testing.sandbox_kit import ISOLATED_CHECKS, PROCESS_CHECKS, SANDBOX_CHECKS, SandboxCheck

SCRIPT = "echo began >> began; while [ ! -e go ]; do sleep 0.05; done; echo done"

CHECKS = (*SANDBOX_CHECKS, *PROCESS_CHECKS, *ISOLATED_CHECKS)


@pytest.fixture(scope="module")
def engine() -> Iterator[docker.DockerClient]:
    with engine_or_skip() as engine:
        yield engine


@pytest.fixture(scope="module")
async def host(docker_images: Path, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[SandboxHost]:
    folder = tmp_path_factory.mktemp("docker")
    async with docker_host(folder, docker_images) as host:
        yield host
    assert mounts_below(folder) == []


@pytest.mark.timeout(600)
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_docker(check: SandboxCheck, host: SandboxHost) -> None:
    await check(SandboxBench(host, "docker"))
    assert await host.sandboxes() == ()


async def test_a_sandbox_outlives_its_host_in_the_middle_of_a_command(
    engine: docker.DockerClient, docker_images: Path, tmp_path: Path
) -> None:
    """The host is killed, and the next one finds the command under way: it ran once (dawn 15)."""
    program = "tests.contract.sandboxes.docker_host_to_kill"
    doomed = await asyncio.create_subprocess_exec(
        sys.executable, "-m", program, str(tmp_path), str(docker_images), SCRIPT, cwd=Path(__file__).parents[3]
    )
    while not (tmp_path / "under-way").exists():
        await asyncio.sleep(0.05)
        assert doomed.returncode is None
    doomed.send_signal(signal.SIGKILL)
    await doomed.wait()
    async with docker_host(tmp_path, docker_images) as host:
        (record,) = await host.sandboxes()
        assert record.state == "live"
        bench = SandboxBench(host, "docker")
        box = Box(bench, bench.order(name=record.ref.name, episode_id=record.episode_id))
        again = asyncio.create_task(box.sh(SCRIPT, op_id="long"))
        await box.write("go", b"", op_id="go")
        assert (await again).stdout.text == "done\n"
        assert (await box.sh("cat began", op_id="look")).stdout.text == "began\n"
        await host.release(record.ref)
        assert containers_of(engine, record.episode_id) == []
    assert mounts_below(tmp_path) == []
    assert os.listdir(tmp_path / "sandboxes") == []


async def test_what_docker_would_let_in_is_kept_out(host: SandboxHost) -> None:
    async with SandboxBench(host, "docker").sandbox() as box:
        assert await box.out("cat /etc/resolv.conf") == ""
        assert (await box.sh("echo > /dev/mqueue/queue")).exit_code != 0
        assert (await box.sh("echo > /usr/own; echo > /etc/own; echo > /ctl/own")).exit_code != 0
        assert (await box.sh("cat /ctl/journal; ls /ctl")).stdout.text == ""
        assert await box.out("ls /sys/class/net") == "lo\n"
        assert await box.out("grep -c . /proc/net/route") == "1\n", "no route but the line of headings"
        assert (await box.sh("kill -KILL 1; kill -TERM 1")).exit_code != 0
        caps = await box.out("grep Cap /proc/self/status | grep -v CapBnd | cut -f2 | sort -u")
        assert caps == "0000000000000000\n"
        assert await box.out("find / -xdev -perm /6000 2>/dev/null; true") == ""


@pytest.mark.parametrize(
    ("image", "kind", "told"),
    [
        ("NOBODY/nothing:1", SandboxUnavailable, "name another image"),
        ("127.0.0.1:1/nobody/nothing:1", EnvironmentFailed, "see whether its registry answers"),
    ],
)
async def test_an_image_that_cannot_be_had_ends_the_wait(
    host: SandboxHost, image: str, kind: type[EnvironmentFailed], told: str
) -> None:
    bench = SandboxBench(host, "docker")
    with pytest.raises(EnvironmentFailed, match=told) as raised:
        await bench.port.provision(bench.order(image=image))
    assert type(raised.value) is kind
    assert await host.sandboxes() == ()


async def test_processes_of_one_are_not_counted_in_another(host: SandboxHost) -> None:
    bench = SandboxBench(host, "docker")
    async with bench.sandbox() as busy, bench.sandbox(limits=SandboxLimits(processes=8)) as small:
        await busy.sh("for i in $(seq 40); do sleep 1000 & done; echo started")
        assert await small.out("sleep 0.1 & sleep 0.1 & wait; echo done") == "done\n"


async def test_a_damaged_record_stops_no_host(docker_images: Path, tmp_path: Path) -> None:
    async with docker_host(tmp_path, docker_images) as host:
        order = SandboxBench(host, "docker").order()
    ref = SandboxRef(driver="docker", name=order.name, incarnation=1)
    kept = Kept.of(order).model_copy(update={"state": "live", "identity": {"first": 5}})
    records.write(records.folder_of(tmp_path / "sandboxes", ref), kept)
    async with docker_host(tmp_path, docker_images) as host:
        assert [(one.ref, one.state) for one in await host.sandboxes()] == [(ref, "lost")]
        await host.release(ref)
        assert await host.sandboxes() == ()
