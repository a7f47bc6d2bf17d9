"""A policy that kills its guardian and hides: the worker's process gets what it leaves, and ends it."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import pytest

from tests.contract.policies_port.bench import Write, left_in

WORKER = """
import asyncio, json, subprocess, sys
from pathlib import Path
from infra.policies.driver import PolicyDriver
from schemas.episode import EpisodeSpec, PolicySpec
from tests.contract.policies_port.bench import task, view
from tiltyard.errors import PolicyFailed
from tiltyard.policies.catalogue import open_script, shipped

async def main(folder):
    driver, wanted = PolicyDriver(open_script, shipped, adopts=True), task(60)
    async def opened(episode_id, target):
        spec = EpisodeSpec(episode_id=episode_id, task_id=wanted.id, task_digest=wanted.digest, world=wanted.world,
                           policy=PolicySpec(target=target, directory=folder), limits=wanted.limits)
        return await driver.open(episode_id, spec, wanted)
    other = await opened('other', 'other:act')
    before = await other.act(view())
    try:
        await (await opened('hides', f'exec:{sys.executable} bot.py')).act(view())
    except PolicyFailed:
        pass
    ended = await driver.close('hides')
    print(json.dumps({'found': ended.found, 'killed': ended.killed,
                      'other_lives': await other.act(view(1)) == before}), flush=True)
    sys.stdin.readline()
    await driver.aclose()

asyncio.run(main(sys.argv[1]))
"""

HIDES = """
import os, signal, sys, time
sys.stdin.readline()
for _ in range(2):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.closerange(0, 3)  # or the worker would wait for the end of its output
            os.execve('/bin/sh', ['sh', '-c', 'trap "" TERM; : > hidden-$$; while :; do sleep 1; done'], {})
        os._exit(0)
while len([name for name in os.listdir() if name.startswith('hidden')]) < 2:
    time.sleep(0.01)
os.kill(os.getppid(), signal.SIGKILL)
time.sleep(600)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux gives orphans to a chosen ancestor")
def test_what_a_policy_hid_behind_its_guardian_s_death_is_ended_and_counted(write: Write, folder: Path) -> None:
    write(HIDES)
    (folder / "other.py").write_text("import os\ndef act(view): return {'submit': {'pid': os.getpid()}}")
    worker = subprocess.Popen([sys.executable, "-c", WORKER, str(folder)], stdin=-1, stdout=-1, text=True)
    assert worker.stdout is not None
    try:
        told = json.loads(worker.stdout.readline())
        hidden = [int(path.name.removeprefix("hidden-")) for path in folder.glob("hidden-*")]
        left = [pid for pid in hidden if Path(f"/proc/{pid}").exists()]
        assert (len(hidden), left) == (2, []), "ended and collected"
        assert told["other_lives"], "a living policy's guardian is no orphan"
        assert told["found"] >= 2
        assert told["killed"] >= 2
    finally:
        worker.communicate("go\n")
        _kill(int(path.name.removeprefix("hidden-")) for path in folder.glob("hidden-*"))
    assert worker.returncode == 0
    assert left_in(folder) == []


def _kill(pids: Iterable[int]) -> None:
    """Where the test fails, nothing stays either."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
