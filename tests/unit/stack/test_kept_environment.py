"""A process that keeps to itself: what another one of the same user can read of it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
SECRET = "marked-secret"

# Root may read everything, so both processes become an ordinary user; that hides them, which the last line undoes.
ORDINARY = """
import ctypes, os, sys
from infra.local.processes import keep_to_itself
if os.getuid() == 0:
    os.setgroups([]), os.setgid(65534), os.setuid(65534)
    ctypes.CDLL(None).prctl(4, 1)
"""
WAITS = "\nprint('ready', flush=True); input()"
KEEPS = "\nkeep_to_itself()"
READS = "\nprint(open(f'/proc/{sys.argv[1]}/environ').read())"


def readable(program: str) -> bool:
    """Whether another process of the same user finds the secret in the environment of this one."""
    paths = os.pathsep.join([str(ROOT), *filter(None, sys.path)])
    with subprocess.Popen(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": paths, "TILTYARD_KEY": SECRET},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        reader = subprocess.run(
            [sys.executable, "-c", ORDINARY + READS, str(process.pid)],
            env={"PYTHONPATH": paths},
            capture_output=True,
            text=True,
        )
        process.communicate(b"\n")
    assert SECRET in reader.stdout or "PermissionError" in reader.stderr, reader.stderr
    return SECRET in reader.stdout


@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
def test_a_process_that_keeps_to_itself_shows_nothing_of_its_environment() -> None:
    if not readable(ORDINARY + WAITS):
        pytest.skip("this system shows no process the environment of another one")
    assert not readable(ORDINARY + KEEPS + WAITS)
