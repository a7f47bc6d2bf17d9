"""A container that ran one program of ours outlives whoever made it, when that one is killed: the next ends it."""

import signal
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.sandboxes.docker import archive, layers
from infra.sandboxes.docker.engine import Engine
from infra.sandboxes.docker.images import Images
from infra.sandboxes.docker.launcher import DockerLauncher
from infra.sandboxes.docker.passing import marks
from tests.contract.sandboxes.docker_engine import engine_or_skip

MAKE = """
import os, signal, sys
from pathlib import Path
from infra.sandboxes.docker.engine import connected
from infra.sandboxes.docker.passing import marks
engine = connected()
print(engine.containers.create(sys.argv[1], ["/none"], labels=marks(Path(sys.argv[2]))).id, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
"""Whoever runs this makes one, and is killed before it has removed it."""


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with engine_or_skip() as engine:
        yield engine


@pytest.fixture
def image(engine: Engine) -> Iterator[str]:
    """The smallest one will do: nothing of it is run."""
    made = archive.image([layers.layer({"etc": layers.folder("etc")})], "tiltyard/passing:latest", {})
    engine.images.load(made.archive)
    yield made.id
    engine.images.remove("tiltyard/passing:latest", force=True)


def killed_maker(image: str, folder: Path) -> str:
    """The container that it leaves."""
    folder.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        [sys.executable, "-c", MAKE, image, folder], stdout=subprocess.PIPE, text=True, timeout=60
    )
    assert done.returncode == -signal.SIGKILL
    return done.stdout.strip()


def is_there(engine: Engine, container: str) -> bool:
    return bool(engine.api.containers(all=True, filters={"id": container}))


def test_the_next_host_ends_what_a_killed_one_has_left(engine: Engine, image: str, tmp_path: Path) -> None:
    left, another = killed_maker(image, tmp_path / "stage"), killed_maker(image, tmp_path / "another")
    mine = engine.containers.create(image, ["/none"], labels=marks(tmp_path / "stage"))
    launcher = DockerLauncher(engine, Images(engine, tmp_path / "images"), tmp_path / "stage")
    try:
        assert launcher.strays() == 1
        assert [is_there(engine, one) for one in (left, another, str(mine.id))] == [False, True, True]
        (tmp_path / "another").rmdir()
        assert launcher.strays() == 1, "one whose folder is gone is nobody's"
        assert not is_there(engine, another)
    finally:
        mine.remove(force=True)


def test_the_next_build_ends_what_a_killed_one_has_left(engine: Engine, image: str, tmp_path: Path) -> None:
    left = killed_maker(image, tmp_path / "images")
    with pytest.raises(tarfile.TarError):
        Images(engine, tmp_path / "images").build(["base"], rootfs=b"no archive")
    assert not is_there(engine, left)
