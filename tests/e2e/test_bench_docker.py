"""The benchmarks of Docker's sandboxes: what they tell, that nothing stays, and what is said without an engine."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from infra.sandboxes.docker.places import LABEL
from ops.bench.containers import MAKING, NOT_HERE, measured
from tests.contract.sandboxes.docker_engine import engine_or_skip

RUN = MAKING["run"]


async def test_docker_is_measured_beside_the_bare_engine_and_nothing_stays(
    docker_images: Path, tmp_path: Path
) -> None:
    if shutil.which("docker") is None:
        pytest.skip(NOT_HERE)
    with engine_or_skip() as engine:
        figures = {one.what: one for one in await measured(tmp_path, docker_images, most=1)}
        ours = [one for one in engine.containers.list(all=True) if str(tmp_path) in str(one.attrs["Mounts"])]
        bare = engine.containers.list(all=True, filters={"label": f"{LABEL}=bench"})
    assert (ours, bare) == ([], [])
    assert figures[RUN].count == 1
    assert all(one.median and one.median > 0 for one in figures.values()), figures
    for what, against in {
        "a fresh sandbox": "bare create and start, the same options",
        "a sandbox from those that wait": RUN,
        "seal, drain and reset of a used one, with proof": RUN,
        "/bin/true in a sandbox": "/bin/true by `docker exec`",
    }.items():
        assert (figures[what].against, figures[what].verdict) == (against, "too few")


def test_without_an_engine_the_command_says_so(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "ops.bench", "--only", "docker", "--json"]
    environment = {**os.environ, "TMPDIR": str(tmp_path), "DOCKER_HOST": "unix:///nonexistent.sock"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    _, report = map(json.loads, done.stdout.splitlines())
    (figure,) = report["figures"]
    assert "install Docker" in figure["skipped"]
    assert list(tmp_path.iterdir()) == []
