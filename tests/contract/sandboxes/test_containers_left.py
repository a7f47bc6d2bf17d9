"""What an engine could not remove, or has no name for, is nobody's: the next sweep ends it."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from docker.errors import DockerException, NotFound

from infra.sandboxes.docker import member as members
from infra.sandboxes.docker.containers import Containers
from infra.sandboxes.docker.member import Kind, Member
from infra.sandboxes.docker.places import FOLDER
from tests.contract.sandboxes.docker_engine import mounts_below
from tiltyard.errors import EnvironmentFailed

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount what Docker sandboxes write to")

KIND = Kind(image="sha256:1", supervisor=Path("/s"), memory_bytes=2**27, processes=72, runtime="runc")


class SickEngine:
    """Makes containers and never starts one. While it is ``sick`` it removes none."""

    def __init__(self) -> None:
        self.api = self
        self.there: dict[str, Mapping[str, str]] = {}
        self.sick, self.named = True, True
        self.says: Any = None

    def create_host_config(self, **_: Any) -> dict[str, object]:
        return {}

    def create_container(self, *_: object, name: str, labels: Mapping[str, str], **__: object) -> None:
        self.there[name] = labels

    def start(self, name: str) -> None:
        if self.says is None:
            raise DockerException("no answer within 60 s")

    def inspect_container(self, name: str) -> Any:
        return self.says

    def remove_container(self, name: str, **_: object) -> None:
        if self.sick:
            raise DockerException("no answer within 60 s")
        if self.there.pop(name.removeprefix("id of "), None) is None:
            raise NotFound("no such container")

    def containers(self, **_: object) -> list[dict[str, object]]:
        return [
            {"Id": f"id of {name}", "Labels": labels, "Names": [f"/{name}"] if self.named else None}
            for name, labels in self.there.items()
        ]


@pytest.fixture
def engine() -> SickEngine:
    return SickEngine()


@pytest.fixture
def containers(engine: SickEngine, tmp_path: Path) -> Iterator[Containers]:
    yield Containers(engine, tmp_path / "home")  # type: ignore[arg-type]  # what is asked of an engine here
    engine.sick = False
    Containers(engine, tmp_path / "home").strays()  # type: ignore[arg-type]
    assert mounts_below(tmp_path) == []


def failed(containers: Containers) -> None:
    with pytest.raises(EnvironmentFailed, match="did not start"):
        containers.make(KIND)


def test_what_failed_while_it_could_not_be_removed_is_ended_by_the_next_sweep(
    engine: SickEngine, containers: Containers, tmp_path: Path
) -> None:
    failed(containers)
    assert (containers.strays(), len(engine.there)) == (0, 1)
    engine.sick = False
    assert (containers.strays(), len(engine.there)) == (1, 0)
    assert containers.strays() == 0
    assert list((tmp_path / "home").iterdir()) == []


def test_whoever_asks_for_an_end_has_it_no_more_whether_it_comes_or_not(
    engine: SickEngine, containers: Containers, tmp_path: Path
) -> None:
    member = Member(folder=tmp_path / "home" / "one", kind=KIND, born=0.0)
    members.write(member)
    member.control.mkdir()
    containers.has(member.folder)
    engine.there[member.name] = {FOLDER: str(member.folder)}
    assert containers.strays() == 0
    assert not containers.end(member.folder)
    engine.sick = False
    assert (containers.strays(), engine.there) == (1, {})


def test_a_container_without_a_name_is_ended_with_the_others(engine: SickEngine, containers: Containers) -> None:
    failed(containers)
    failed(containers)
    engine.sick = engine.named = False
    assert (containers.strays(), len(engine.there)) == (2, 0)


@pytest.mark.parametrize("said", [[], {}, {"State": None}, {"State": {"Pid": "none"}}])
def test_an_engine_that_answers_nonsense_has_failed_for_now(
    engine: SickEngine, containers: Containers, said: object
) -> None:
    engine.says, engine.sick = said, False
    failed(containers)
    assert engine.there == {}


@pytest.mark.parametrize("said", [[{}], [{"Labels": None}], [None]])
def test_an_engine_that_lists_nonsense_has_failed_for_now(
    engine: SickEngine, tmp_path: Path, said: list[object]
) -> None:
    listing = SimpleNamespace(api=SimpleNamespace(containers=lambda **_: said))
    with pytest.raises(EnvironmentFailed, match="does not say which containers"):
        Containers(listing, tmp_path / "home").strays()  # type: ignore[arg-type]
