"""The same as another user: ``ordinary_user UID FOLDER``, run by root, prints what the driver does for that user.

What that user needs may lie in folders that are root's alone. So this process leaves the mounts of the machine, and
shows itself in there only what is needed, at the same places, before it becomes the user.
"""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

from infra.sandboxes.bubblewrap import BubblewrapLauncher
from infra.sandboxes.host import SandboxHost
from infra.sandboxes.mounts import private_place, show
from infra.sandboxes.stage import CODE
from tiltyard.testing.sandbox_bench import SandboxBench

ASKING = (
    'import http.client; asking = http.client.HTTPConnection("tally.world"); asking.request("POST", "/add", "{}"); '
    "print(asking.getresponse().status)"
)
"""A program that says what it is answered by the port on which worlds are served."""

LATER = "--now"
"""Says that the user has been changed already."""


def show_what_is_needed() -> None:
    """Lay an open folder over every one that others may not enter, with only our own paths in it."""
    needed = [Path(os.path.realpath(path)) for path in (CODE, sys.prefix, sys.base_prefix)]
    place = private_place()
    aside = [place / str(number) for number in range(len(needed))]
    for path, copy in zip(needed, aside, strict=True):
        show(path, copy)
    for path, copy in zip(needed, aside, strict=True):
        closed = next((up for up in reversed(path.parents) if not up.stat().st_mode & 0o001), None)
        if closed:
            subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", closed], check=True)
        if not path.exists():
            show(copy, path)


def become(user: int) -> None:
    os.setgroups([])
    os.setgid(user)
    os.setuid(user)


async def session(folder: Path) -> dict[str, object]:
    """A sandbox from its offer to its release."""
    launcher = BubblewrapLauncher(folder / "stage")
    try:
        offer = launcher.offer()
        if not offer.available:
            return {"offer": offer.model_dump(mode="json")}
        async with SandboxHost({"bubblewrap": launcher}, folder / "boxes", slots=2) as host:
            bench = SandboxBench(host, "bubblewrap")
            async with bench.sandbox() as box:
                said = await box.out(
                    "id -u; python3 -c 'print(6 * 7)'; cat /proc/self/oom_score_adj; (setsid sleep 1000 &); "
                    "head -1 /proc/self/uid_map"
                )
                await box.put("file", b"text")
                files = {path: content.decode() for path, content in (await box.files()).items()}
                await bench.port.seal(box.ref)
                drain = await bench.port.drain(box.ref)
            async with bench.sandbox(exposes={"tally": ("add",)}) as serving:
                served = await serving.out(f"python3 -c '{ASKING}'")
            left = await host.sandboxes()
    finally:
        launcher.close()
    return {
        "user": os.geteuid(),
        "offer": offer.model_dump(mode="json"),
        "said": said.split(),
        "files": files,
        "served": served.strip(),
        "drain": drain.model_dump(mode="json"),
        "left": [*left, *map(str, (folder / "boxes").iterdir())],
    }


def main(user: int, folder: Path, now: bool) -> None:
    if now:
        print(json.dumps(asyncio.run(session(folder))))
        return
    show_what_is_needed()
    become(user)
    # A new program, so that nothing that root has opened or imported is there any more.
    command = [sys.executable, "-m", "tests.contract.sandboxes.ordinary_user", str(user), str(folder), LATER]
    os.chdir(CODE)
    os.execve(sys.executable, command, {"PATH": os.defpath, "HOME": str(folder), "PYTHONDONTWRITEBYTECODE": "1"})


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]), LATER in sys.argv)
