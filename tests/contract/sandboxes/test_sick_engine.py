"""A Docker engine that hangs, fails or talks nonsense: every call ends, nobody waits for it, and nothing leaks."""

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from infra.sandboxes.docker.engine import Engine, NoAnswer, connected, problem_of
from infra.sandboxes.docker.images import Images
from infra.sandboxes.docker.launcher import DockerLauncher
from infra.sandboxes.host import SandboxHost
from tests.contract.sandboxes.docker_engine import engine_or_skip, mounts_below
from tests.contract.sandboxes.engine_gate import SICK, EngineGate, engine_gate
from tiltyard.errors import EnvironmentFailed, SandboxUnavailable
from tiltyard.testing.sandbox_bench import SandboxBench

NONE_THERE = ("garbage", "hanging up", "cut off", "of another kind", "of no known kind", "no JSON")
"""Who answers so is taken for no engine at all."""


@pytest.fixture
async def gate() -> AsyncIterator[EngineGate]:
    with tempfile.TemporaryDirectory() as folder:
        async with engine_gate(Path(folder) / "docker.sock") as made:
            yield made


@asynccontextmanager
async def engine_at(gate: EngineGate, call_s: float) -> AsyncIterator[Engine]:
    engine = connected(gate.place, call_s)
    try:
        yield engine
    finally:
        engine.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount what Docker sandboxes write to")
@pytest.mark.parametrize("how", SICK)
async def test_an_engine_that_does_not_answer_as_one_is_told(gate: EngineGate, how: str, tmp_path: Path) -> None:
    """Whether it may pass is told apart: an order waits for an engine that is there, and for no other."""
    gate.how = how
    async with engine_at(gate, call_s=0.2) as engine:
        launcher = DockerLauncher(engine, Images(engine, tmp_path), tmp_path)
        async with SandboxHost({"docker": launcher}, tmp_path / "sandboxes", slots=1) as host:
            kind = SandboxUnavailable if how in NONE_THERE else EnvironmentFailed
            with pytest.raises(EnvironmentFailed) as raised:
                await host.provision(SandboxBench(host, "docker").order())
            assert type(raised.value) is kind
            if how in NONE_THERE:
                assert "no engine answers" in (await host.offer("docker")).problem
            else:
                with pytest.raises(EnvironmentFailed):
                    await host.offer("docker")
            if how != "of another kind":
                with pytest.raises(EnvironmentFailed, match="does not say which containers"):
                    await host.sweep()
            assert await host.sandboxes() == ()
            assert (await host.capacity()).free == 1
    assert gate.asked


async def test_every_call_ends_also_those_that_dockers_client_waits_for(gate: EngineGate) -> None:
    """docker-py 2651: the end of a container was waited for without a limit, whatever limit was given."""
    gate.how = "silent"
    async with engine_at(gate, call_s=0.2) as engine:
        engine.api.slow_s = 0.2
        api = engine.api
        for call in (engine.ping, engine.info, partial(api.attach, "one"), partial(api.wait, "one")):
            with pytest.raises(NoAnswer, match=r"did not answer within [\d.]+ s"):
                await asyncio.to_thread(call)


async def test_a_driver_is_closed_however_long_its_engine_would_take(
    gate: EngineGate, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    gate.how = "silent"
    async with engine_at(gate, call_s=3600) as engine:
        launcher = DockerLauncher(engine, Images(engine, tmp_path), tmp_path)
        await asyncio.to_thread(launcher.close, 0.2)
    assert "left to the next process" in caplog.text


def test_where_nobody_listens_is_told_at_once(tmp_path: Path) -> None:
    engine = connected(f"unix://{tmp_path}/docker.sock")
    try:
        assert problem_of(engine) == f"unix://{tmp_path}/docker.sock: No such file or directory"
    finally:
        engine.close()


@dataclass(frozen=True)
class Behind:
    """A host whose engine is behind the gate."""

    bench: SandboxBench
    host: SandboxHost
    engine: Engine
    gate: EngineGate

    def becomes(self, how: str) -> None:
        """Sick in this way, or well again; a true engine gets the time that it may need."""
        self.gate.how = how
        self.engine.api.timeout = 1 if how else 60


@pytest.fixture
async def behind(gate: EngineGate, docker_images: Path, tmp_path: Path) -> AsyncIterator[Behind]:
    with engine_or_skip():
        pass
    async with engine_at(gate, call_s=60) as engine:
        launcher = DockerLauncher(engine, Images(engine, docker_images), tmp_path / "shared")
        async with SandboxHost({"docker": launcher}, tmp_path / "sandboxes", slots=1) as host:
            behind = Behind(SandboxBench(host, "docker"), host, engine, gate)
            yield behind
            behind.becomes("")
            await host.sweep()
            for one in await host.sandboxes():
                await host.release(one.ref)
            assert await host.sandboxes() == ()
        await asyncio.to_thread(launcher.close)  # it asks the engine, whose gate is of this loop
    assert mounts_below(tmp_path) == []


@pytest.mark.parametrize("how", ["silent", "failing", "busy", "garbage"])
async def test_a_sandbox_works_on_and_what_is_left_of_it_is_ended_when_the_engine_is_back(
    behind: Behind, how: str
) -> None:
    """Commands do not go through the engine; an end does, and its processes are killed all the same."""
    async with behind.bench.sandbox() as box:
        behind.becomes(how)
        assert (await box.sh("echo here")).stdout.text == "here\n"
        await box.close()
        assert (await behind.host.facts(box.ref)).enforced
    (left,) = await behind.host.sandboxes()
    assert (left.ref.name, left.state) == (box.order.name, "lost")
    behind.becomes("")
    await behind.host.release(left.ref)
    assert await behind.host.sandboxes() == ()
    async with behind.bench.sandbox() as box:
        assert (await box.sh("echo again")).stdout.text == "again\n"
