"""What Docker's own variables say may be no place at all: that is told at once, with the variable and a remedy."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.sandboxes.docker.engine import connected, problem_of
from infra.sandboxes.host import SandboxHost
from infra.sandboxes.late import LateLauncher
from tiltyard.errors import SandboxUnavailable
from tiltyard.testing.memory_sandboxes import MemorySandboxes
from tiltyard.testing.sandbox_bench import SandboxBench
from workers.bootstrap.sandboxes import open_launchers

NO_PLACES = [
    "garbage",
    "tcp://",
    "tcp://host",
    "tcp://host:99999",
    "tcp://[::1",
    "fd://",
    "npipe:////./pipe/one",
    "ssh://a/b",
]


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DOCKER_HOST", "DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("place", NO_PLACES)
def test_no_place_of_an_engine_names_the_variable(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", place)
    with pytest.raises(SandboxUnavailable, match="DOCKER_HOST") as raised:
        connected()
    assert place in str(raised.value)
    assert "unix:///PATH" in raised.value.fix


def test_certificates_that_are_not_there_name_their_variables(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DOCKER_TLS_VERIFY", "1")
    monkeypatch.setenv("DOCKER_CERT_PATH", str(tmp_path))
    with pytest.raises(SandboxUnavailable, match="DOCKER_CERT_PATH") as raised:
        connected()
    assert "DOCKER_TLS_VERIFY" in raised.value.fix


def test_certificates_that_are_none_are_no_engine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("ca", "cert", "key"):
        (tmp_path / f"{name}.pem").write_text("nothing")
    monkeypatch.setenv("DOCKER_TLS_VERIFY", "1")
    monkeypatch.setenv("DOCKER_CERT_PATH", str(tmp_path))
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:1")
    try:
        engine = connected()
    except SandboxUnavailable:
        return
    try:
        assert problem_of(engine)
    finally:
        engine.close()


@pytest.fixture
def late(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LateLauncher]:
    """The driver as its host has it, with something left of an earlier process, where there is no place."""
    monkeypatch.setenv("DOCKER_HOST", "garbage")
    (tmp_path / "docker" / "containers" / "left").mkdir(parents=True)
    with open_launchers(tmp_path, tmp_path / "images") as launchers:
        found = launchers["docker"]
        assert isinstance(found, LateLauncher)
        yield found  # and it is closed, which raises nothing


async def test_an_episode_does_not_wait_for_such_an_engine(late: LateLauncher, tmp_path: Path) -> None:
    order = SandboxBench(MemorySandboxes(), "docker").order()
    assert late.sweep({"folder": str(tmp_path)}) is False
    async with SandboxHost({"docker": late}, tmp_path / "sandboxes", slots=1) as host:
        offer = await host.offer("docker")
        assert not offer.available
        assert "DOCKER_HOST" in offer.problem
        assert "unix:///PATH" in offer.fix
        with pytest.raises(SandboxUnavailable, match="DOCKER_HOST"):
            await host.provision(order)
        with pytest.raises(SandboxUnavailable, match="DOCKER_HOST"):
            await host.sweep()
