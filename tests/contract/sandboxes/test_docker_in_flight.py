"""A container that is being made when whoever asked for it goes: the release waits for it, and ends it."""

import asyncio
from pathlib import Path

from infra.sandboxes.records import ref_of
from tests.contract.sandboxes.docker_engine import containers_below, docker_host, engine_or_skip, mounts_below
from tiltyard.testing.sandbox_bench import SandboxBench


async def test_a_provision_that_is_cancelled_in_flight_leaves_no_container(
    docker_images: Path, tmp_path: Path
) -> None:
    """At whatever moment: before it is made, in the middle of that, and after."""
    async with docker_host(tmp_path, docker_images) as host:
        bench = SandboxBench(host, "docker")
        orders = [bench.order() for _ in range(4)]
        making = [asyncio.create_task(host.provision(order)) for order in orders]
        for number, one in enumerate(making):
            await asyncio.sleep(0.1 * number)
            one.cancel()
        await asyncio.gather(*(host.release(ref_of(order)) for order in orders))
        await asyncio.wait(making)
        assert await host.sandboxes() == ()
        assert (await host.capacity()).free == 4
        with engine_or_skip() as engine:
            assert containers_below(engine, tmp_path) == []
    assert mounts_below(tmp_path) == []
