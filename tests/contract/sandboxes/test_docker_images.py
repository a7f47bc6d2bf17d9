"""Images in a real engine: equal wherever they are built, and taken from a registry at first need."""

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest

from infra.sandboxes.docker import archive, layers
from infra.sandboxes.docker.images import Images
from infra.sandboxes.docker.recipes import BASE
from tests.contract.sandboxes.docker_engine import engine_or_skip
from tiltyard.errors import BadInput, EnvironmentFailed


@pytest.fixture(scope="module")
def engine() -> Iterator[docker.DockerClient]:
    with engine_or_skip() as engine:
        yield engine


@pytest.fixture
def images(engine: docker.DockerClient, tmp_path: Path) -> Images:
    return Images(engine, tmp_path)


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[str]:
    """The place of a registry that listens on loopback."""
    program = shutil.which("docker-registry")
    if program is None:
        pytest.skip("there is no docker-registry: install the package")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        place = f"127.0.0.1:{free.getsockname()[1]}"
    settings = tmp_path / "registry.yml"
    settings.write_text(
        f"version: 0.1\nstorage: {{filesystem: {{rootdirectory: {tmp_path}/data}}}}\nhttp: {{addr: {place}}}\n"
    )
    process = subprocess.Popen([program, "serve", settings], stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    try:
        while not _listens(int(place.rpartition(":")[2])):
            time.sleep(0.05)
        yield place
    finally:
        process.terminate()
        process.wait()


def _listens(port: int) -> bool:
    with socket.socket() as knocking:
        return not knocking.connect_ex(("127.0.0.1", port))


@pytest.mark.timeout(300)
def test_equal_packages_make_an_equal_image(
    engine: docker.DockerClient, docker_images: Path, tmp_path: Path
) -> None:
    first = Images(engine, docker_images).find(BASE)
    assert first is not None
    shutil.copytree(docker_images / "packages", tmp_path / "packages")
    images = Images(engine, tmp_path)
    assert images.find(BASE) is None
    assert images.build([BASE]) == (first,)
    assert images.find(BASE) == first
    assert [one.name for one in images.all()] == [BASE]
    assert any(name.startswith("python3_") for name in first.packages)


def test_an_image_that_nobody_knows(images: Images) -> None:
    with pytest.raises(BadInput) as caught:
        images.build(["unknown"])
    assert caught.value.field == "image"
    assert BASE in caught.value.fix


def test_a_reference_is_taken_from_its_registry(engine: docker.DockerClient, images: Images, registry: str) -> None:
    """The smallest image will do: nothing of it is run."""
    reference = f"{registry}/own/smallest:1"
    with pytest.raises(EnvironmentFailed, match="cannot be had"):
        images.get(reference)
    made = archive.image([layers.layer({"etc": layers.folder("etc")})], reference, {})
    engine.images.load(made.archive)
    engine.images.push(f"{registry}/own/smallest", tag="1")
    engine.images.remove(reference)
    taken = images.get(reference)
    try:
        assert (taken.id, taken.name) == (made.id, reference)
        assert images.find(reference) == taken
    finally:
        engine.images.remove(reference)
