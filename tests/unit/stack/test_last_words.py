"""What a process of the stack says when it cannot start: one line, its last, that names the cause and the mend."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

CASES = {
    "database": ({}, "worlds.db cannot be used (file is not a database): `tiltyard doctor`"),
    "setting": ({"TILTYARD_HEARTBEAT_S": "soon"}, "TILTYARD_HEARTBEAT_S: "),
}


@pytest.mark.parametrize("case", CASES)
def test_the_world_server_ends_with_one_clear_line(tmp_path: Path, case: str) -> None:
    (tmp_path / "worlds.db").write_bytes(b"no database " * 500)
    settings, said = CASES[case]
    done = subprocess.run(
        [sys.executable, "-P", "-m", "workers.world_server"],
        env={**os.environ, "TILTYARD_HOME": str(tmp_path), "TILTYARD_RUNTIME": str(tmp_path), **settings},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1
    assert said in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr


def test_the_worker_ends_with_one_clear_line(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-P", "-m", "workers.worker"],
        env={**os.environ, "TILTYARD_HOME": str(tmp_path), "TILTYARD_RUNTIME": "here"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1
    assert "TILTYARD_RUNTIME: " in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
