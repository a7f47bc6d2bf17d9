"""A host in a process of its own, to be killed while a program waits for the reply to a call that has taken effect:
``python -m tests.contract.sandboxes.docker_world_host_to_kill FOLDER IMAGES SOCKET LEASE``."""

import asyncio
import sys
from pathlib import Path

from infra.rpc.client import WorldClient
from schemas.world import Lease
from tests.contract.sandboxes.docker_engine import docker_host
from tests.contract.sandboxes.served_world import ServedWorld, said
from tiltyard.testing.gated_world import GatedWorld
from tiltyard.testing.sandbox_bench import SandboxBench

SOURCE = "print(json.dumps(call('add', name='x')))"


async def main(folder: Path, images: Path, socket: Path, lease: Lease) -> None:
    async with WorldClient(socket) as world:
        served = ServedWorld(GatedWorld(world), lease)
        served.world.gates["answering"].shut()
        async with (
            docker_host(folder, images, worlds=served.worlds) as host,
            served.sandbox(SandboxBench(host, "docker")) as box,
        ):
            asked = asyncio.create_task(said(box, SOURCE, op_id="ep/1/0/0"))
            await served.world.gates["answering"].reached.wait()
            (folder / "under-way").touch()
            await asked


if __name__ == "__main__":
    home, known, way, leased = sys.argv[1:]
    asyncio.run(main(Path(home), Path(known), Path(way), Lease.model_validate_json(leased)))
