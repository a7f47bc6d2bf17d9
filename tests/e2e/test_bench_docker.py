"""The benchmarks of Docker's sandboxes: what they tell, that nothing stays, and what is said without an engine."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from infra.sandboxes.docker.places import LABEL
from ops.bench.containers import NOT_HERE, Yard, measured
from tests.contract.sandboxes.docker_engine import docker_host, engine_or_skip


async def test_docker_is_measured_beside_the_bare_engine_and_nothing_stays(
    docker_images: Path, tmp_path: Path
) -> None:
    if shutil.which("docker") is None:
        pytest.skip(NOT_HERE)
    async with docker_host(tmp_path, docker_images) as host:
        with engine_or_skip() as engine:
            figures = {one.what: one for one in await measured(Yard(host, tmp_path / "sandboxes", engine), most=2)}
            assert engine.containers.list(all=True, filters={"label": f"{LABEL}=bench"}) == []
        assert await host.sandboxes() == ()
    bare = figures["bare `docker run --rm IMAGE true`"]
    assert (bare.count, bare.verdict) == (2, "")
    assert all(one.median and one.median > 0 for one in figures.values()), figures
    for what, against in {
        "a fresh sandbox": "bare create and start, the same options",
        "/bin/true in a sandbox": "/bin/true by `docker exec`",
    }.items():
        assert (figures[what].against, figures[what].verdict) == (against, "too few")


def test_without_an_engine_the_command_says_so(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "ops.bench", "--only", "docker", "--only", "docker-episodes", "--json"]
    environment = {**os.environ, "TMPDIR": str(tmp_path), "DOCKER_HOST": "unix:///nonexistent.sock"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    _, *reports = map(json.loads, done.stdout.splitlines())
    assert [one["subject"] for one in reports] == ["docker", "docker-episodes"]
    assert all("install Docker" in figure["skipped"] for one in reports for figure in one["figures"]), reports
    assert list(tmp_path.iterdir()) == []
