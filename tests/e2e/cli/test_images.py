"""``tiltyard images`` where no engine answers, and what is refused before one is asked."""

import tarfile
from collections.abc import Iterator
from dataclasses import replace

import docker
import pytest

from infra.sandboxes.docker import archive, layers
from infra.sandboxes.docker.engine import connected
from infra.sandboxes.docker.images import ImageRecord
from schemas.base import sha256
from tests.e2e.cli.cli_calls import Cli

MEND = "to mend it: install Docker"


@pytest.fixture
def alone(cli: Cli) -> Cli:
    """Without an engine."""
    return replace(cli, settings=(("DOCKER_HOST", "unix:///nonexistent.sock"),))


@pytest.mark.parametrize(
    "command",
    [
        ("list",),
        ("build",),
        ("build", "base", "web"),
        ("build", "--rootfs", "root.tar"),
        ("build", "--pull", "a/b:1"),
    ],
    ids=" ".join,
)
def test_without_an_engine_the_environment_failed(alone: Cli, command: tuple[str, ...]) -> None:
    tarfile.open(alone.folder / "root.tar", "w").close()
    for options in ((), ("--json",)):
        said = alone("images", *command, *options, code=3)
        assert said.out == ""
        assert "no Docker engine answers" in said.err
        assert MEND in said.err
        assert "fetching" not in said.err
    assert not alone.home.exists()


def test_a_place_that_is_none_is_told_with_its_variable(cli: Cli) -> None:
    lost = replace(cli, settings=(("DOCKER_HOST", "garbage"),))
    said = lost("images", "list", code=3)
    assert "DOCKER_HOST: 'garbage' names no engine" in said.err
    assert "to mend it: set DOCKER_HOST to unix:///PATH" in said.err
    checks = {one["name"]: one for one in lost("doctor", "--json").object["checks"]}
    assert "DOCKER_HOST: 'garbage' names no engine" in checks["sandbox docker"]["detail"]


@pytest.mark.parametrize(
    ("command", "told"),
    [
        (("basr",), ("NAME: there is no image 'basr'", "did you mean base?", "known images: base, code-repair")),
        (("base", "moon"), ("there is no image 'moon'", "images build --pull REF")),
        (("--rootfs", "absent.tar"), ("'--rootfs'", "does not exist")),
        (("--rootfs", "."), ("'--rootfs'", "is a directory")),
        (("--pull", ""), ("--pull: the reference is empty",)),
        (("--pull", "base"), ("--pull: 'base' is the name of an image that is built", "docker.io/library/base")),
        (("--pull", "a/b:1", "base"), ("--pull takes an image as it is",)),
        (("--pull", "a/b:1", "--rootfs", "root.tar"), ("--pull takes an image as it is",)),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_wrong_use_is_told_whether_an_engine_answers_or_not(
    alone: Cli, command: tuple[str, ...], told: tuple[str, ...]
) -> None:
    tarfile.open(alone.folder / "root.tar", "w").close()
    said = alone("images", "build", *command, "--json", code=2)
    assert said.out == ""
    assert all(one in said.err for one in told), said.err


def test_the_doctor_misses_an_engine_and_finds_no_fault_in_it(alone: Cli) -> None:
    checks = {one["name"]: one for one in alone("doctor", "--json").object["checks"]}
    found = checks["sandbox docker"]
    assert (found["ok"], found["missing"]) == (True, True)
    assert found["fix"]
    assert "does not work here" in found["detail"]


def test_docker_is_a_sandbox_that_can_be_asked_for(cli: Cli) -> None:
    """It isolates: hidden tests are no reason to refuse it. Another name is refused with all that there are."""
    said = cli("run", "absent/absent/1", "--policy", "reference", "--sandbox", "docker", code=2)
    assert "--sandbox" not in said.err
    said = cli("run", "absent/absent/1", "--policy", "reference", "--sandbox", "podman", code=2)
    assert "'bubblewrap', 'docker', 'unsafe-local'" in said.err


@pytest.fixture
def engine(cli: Cli) -> Iterator[docker.DockerClient]:
    """Asked for by another process first: Docker's library leaves a socket open where no engine answers."""
    if "no Docker engine answers" in (said := cli("images", "list", code=None)).err:
        pytest.skip(said.err)
    engine = connected()
    yield engine
    engine.close()


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize(
    ("held", "told"), [(None, "root.tar cannot be used"), ("etc/motd", "root.tar has no /usr/bin/python3")]
)
def test_a_root_folder_that_makes_no_image_is_the_callers(cli: Cli, held: str | None, told: str) -> None:
    file = cli.folder / "root.tar"
    file.write_bytes(b"no archive" * 100)
    if held:
        with tarfile.open(file, "w") as packed:
            packed.addfile(tarfile.TarInfo(held))
    said = cli("images", "build", "--rootfs", "root.tar", "--json", code=2)
    assert f"--rootfs: {told}" in said.err
    assert "to mend it: give a " in said.err
    assert cli("images", "list", "--json").object == {"images": []}


def test_an_image_is_listed_by_a_short_id_and_with_json_by_all_of_it(cli: Cli, engine: docker.DockerClient) -> None:
    """What the engine has is listed, what it has no longer is not. An empty root folder's image is enough."""
    made = archive.image([layers.layer({"etc": layers.folder("etc")})], "tiltyard/listed:latest", {})
    (loaded,) = engine.images.load(made.archive)
    try:
        record = ImageRecord(name="listed", id=made.id, bytes=loaded.attrs["Size"], packages=("a_1_all", "b_2_all"))
        gone = record.model_copy(update={"name": "gone", "id": "sha256:" + "0" * 64})
        (cli.home / "images").mkdir(parents=True)
        for one in (record, gone):
            place = cli.home / "images" / f"{sha256(one.name.encode())[7:23]}.json"
            place.write_text(one.model_dump_json())
        assert cli("images", "list", "--json").object == {"images": [record.model_dump(mode="json")]}
        heads, row = (line.split() for line in cli("images", "list").out.splitlines())
        assert heads == ["IMAGE", "ID", "SIZE", "PACKAGES"]
        assert row == ["listed", made.id[7:19], "0.0", "MB", "2"]
    finally:
        engine.images.remove(made.id, force=True)
