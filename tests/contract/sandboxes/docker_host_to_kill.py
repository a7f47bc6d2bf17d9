"""A host in a process of its own, to be killed in the middle of a command: ``python docker_host_to_kill.py FOLDER
IMAGES SCRIPT``."""

import asyncio
import sys
from pathlib import Path

from tests.contract.sandboxes.docker_engine import docker_host
from tiltyard.testing.sandbox_bench import SandboxBench


async def main(folder: Path, images: Path, script: str) -> None:
    async with docker_host(folder, images) as host:
        bench = SandboxBench(host, "docker")
        async with bench.sandbox() as box:
            asked = asyncio.create_task(box.sh(script, op_id="long"))
            await box.appears("began")
            (folder / "under-way").touch()
            await asked


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]))
