"""What a policy's process is given, and that it never outlives its worker."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from infra.policies.processes import MARK
from tests.contract.policies_port.bench import Open, Write, left_in, view

SECRET = "marked-secret-of-the-grader"

LOOK = """
import glob, os
def act(view):
    with open('/proc/self/cmdline') as line, open(f'/proc/{os.getppid()}/environ') as guardian:
        return {'submit': {'environment': dict(os.environ), 'directory': os.getcwd(), 'command': line.read(),
                           'guardian': guardian.read(),
                           'files': [os.readlink(fd) for fd in glob.glob('/proc/self/fd/*') if os.path.exists(fd)]}}
"""


@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
async def test_nothing_of_the_worker_can_be_read_from_the_process(
    opened: Open, write: Write, folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TILTYARD_GRADER_KEY", SECRET)
    monkeypatch.setenv("PYTHONPATH", f"/{SECRET}")
    write(LOOK)
    with (tmp_path / SECRET).open("w") as secret:
        os.set_inheritable(secret.fileno(), True)
        seen = (await (await opened("bot:act")).act(view())).submit
    assert seen is not None
    assert SECRET not in json.dumps(seen)
    environment = seen["environment"]
    assert isinstance(environment, dict)
    assert set(environment) - {"LC_CTYPE"} == {"PATH", "LANG", "HOME", "PYTHONUNBUFFERED", "PYTHONHASHSEED", MARK}
    assert environment["HOME"] == seen["directory"] == str(folder)
    assert "ep-1" not in json.dumps(seen)
    files = seen["files"]
    assert isinstance(files, list)
    on_disk = {str(file) for file in files if str(file).startswith("/") and not str(file).startswith("/proc/")}
    assert on_disk == {"/dev/null"}


async def test_a_command_inherits_standard_input_output_and_error_alone(opened: Open, write: Write) -> None:
    write(
        "import json, os, sys\ndef is_open(number):\n    try: os.fstat(number)\n    except OSError: return False\n"
        "    return True\nopen_ones = [number for number in range(1024) if is_open(number)]\n"
        "for line in sys.stdin: print(json.dumps({'submit': {'open': open_ones}}))"
    )
    decision = await (await opened(f"exec:{sys.executable} bot.py")).act(view())
    assert decision.submit == {"open": [0, 1, 2]}


WORKER = """
import asyncio, sys
from collections.abc import Callable
from pathlib import Path
from infra.policies.child import Child, Launch
from infra.policies.orphans import Orphans

async def main(arguments):
    Child.start(Launch(tuple(arguments), Path.cwd()), Orphans())
    await asyncio.sleep(600)

asyncio.run(main(sys.argv[1:]))
"""

STUBBORN = """
import os, signal, subprocess, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
subprocess.Popen(['sleep', '600'], start_new_session=True, env={})
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(600)
    os._exit(0)
open('ready', 'w').close()
time.sleep(600)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process that its parent died")
def test_a_worker_that_is_killed_leaves_no_policy(write: Write, folder: Path) -> None:
    path = write(STUBBORN)
    worker = subprocess.Popen([sys.executable, "-c", WORKER, "exec", sys.executable, path.name], cwd=folder)
    try:
        _until(lambda: (folder / "ready").exists())
        _until(lambda: len(left_in(folder)) >= 5)  # worker, guardian, policy, and its two daemons
    finally:
        worker.send_signal(signal.SIGKILL)
        worker.wait()
    _until(lambda: not left_in(folder))


def _until(holds: Callable[[], bool]) -> None:
    """Wait until it holds; the test's own timeout is the only limit."""
    while not holds():
        time.sleep(0.02)
