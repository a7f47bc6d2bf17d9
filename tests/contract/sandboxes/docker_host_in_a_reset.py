"""A host in a process of its own, to be killed in the middle of a reset: ``python docker_host_in_a_reset.py FOLDER
IMAGES``. Its supervisors do what they are asked to do, and do not say so."""

import asyncio
import sys
from pathlib import Path

from tests.contract.sandboxes.reset_yard import changed_supervisor, reset_yard

SILENT = ("self.begin()\n        return {}", "self.begin()\n        return None")


async def main(folder: Path, images: Path) -> None:
    async with reset_yard(folder, images, changed_supervisor(SILENT), warm=1) as yard:
        box = await yard.made()
        while not len(yard.launcher.pool):
            await asyncio.sleep(0.01)
        await yard.over(box)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), Path(sys.argv[2])))
