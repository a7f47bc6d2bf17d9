"""Docker's sandboxes in gVisor: the promises of the port, and what a kernel of their own does not let us see."""

import os
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path

import pytest

from infra.sandboxes.docker.engine import Engine
from infra.sandboxes.docker.gvisor import tasks_of
from infra.sandboxes.host import SandboxHost
from schemas.sandbox import SandboxLimits
from tests.contract.sandboxes.docker_engine import docker_host, engine_or_skip, mounts_below
from tiltyard.errors import SandboxLost
from tiltyard.testing.sandbox_bench import SandboxBench, refuses
from tiltyard.testing.sandbox_kit import ISOLATED_CHECKS, PROCESS_CHECKS, SANDBOX_CHECKS, SandboxCheck

RUNTIME = "runsc"

CHECKS = (*SANDBOX_CHECKS, *PROCESS_CHECKS, *ISOLATED_CHECKS)

NOT_HERE: Mapping[str, str] = {
    "programs_and_commands_have_times": "programs are seen when the supervisor looks, and short ones never",
    "a_daemon_is_found_and_ended": "it is found and ended, and told by the program that it was at the first look",
    "a_marked_file_is_followed": "reads by another name of the file are not all told",
    "nobody_inside_sees_the_marks": "gVisor lists the open files of the supervisor to everybody",
}
"""Checks that do not hold in gVisor, and why: what is promised instead. One that comes to hold fails here."""


def case(check: SandboxCheck) -> object:
    why = NOT_HERE.get(check.__name__)
    marks = [pytest.mark.xfail(strict=True, reason=why, raises=(AssertionError, ValueError))] if why else []
    return pytest.param(check, marks=marks, id=check.__name__)


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with engine_or_skip() as engine:
        if RUNTIME not in engine.info()["Runtimes"]:
            pytest.skip(f"the engine has no runtime {RUNTIME}: install runsc, and name it in its settings")
        yield engine


@pytest.fixture(scope="module")
async def host(
    engine: Engine, docker_images: Path, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[SandboxHost]:
    folder = tmp_path_factory.mktemp("gvisor")
    async with docker_host(folder, docker_images, runtime=RUNTIME) as host:
        yield host
    assert mounts_below(folder) == []


@pytest.mark.timeout(600)
@pytest.mark.parametrize("check", [case(check) for check in CHECKS])
async def test_gvisor(check: SandboxCheck, host: SandboxHost) -> None:
    await check(SandboxBench(host, "docker"))


async def test_it_is_another_kernel_and_used_once(host: SandboxHost) -> None:
    bench = SandboxBench(host, "docker")
    async with bench.sandbox(isolation="reset") as box:
        assert os.uname().version not in await box.out("cat /proc/version")
        await box.close()
        assert (await host.facts(box.ref)).served_before == 0
    async with bench.sandbox(isolation="reset") as box:
        await box.close()
        assert (await host.facts(box.ref)).served_before == 0


async def test_nobody_inside_reaches_the_supervisor(host: SandboxHost) -> None:
    async with SandboxBench(host, "docker").sandbox() as box:
        assert (await box.sh("kill -KILL 1; kill -STOP 1")).exit_code != 0
        assert (await box.sh("ls /ctl; cat /ctl/journal-0 /proc/1/mem; echo x > /ctl/x")).stdout.text == ""
        assert (await box.sh("echo x > /usr/x; echo x > /etc/x; echo x > /x")).exit_code != 0
        assert await box.out("grep CapEff /proc/self/status | cut -f2") == "0000000000000000\n"
        assert await box.out("grep -c . /proc/net/route") == "1\n", "no route but the line of headings"


async def test_too_many_processes_cost_the_sandbox_and_not_the_machine(host: SandboxHost) -> None:
    bench = SandboxBench(host, "docker")
    limits = SandboxLimits(processes=8)
    async with bench.sandbox(limits=limits) as box:
        script = box.script(f"for i in $(seq {tasks_of(8)}); do sleep 1000 & done; echo all")
        await refuses(SandboxLost, bench.soon(host.call(box.ref, script)))
    async with bench.sandbox() as box:
        assert await box.out("echo said") == "said\n"
