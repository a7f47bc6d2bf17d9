"""Scripted episodes with commands replay without divergence on every driver; another image is found and named."""

import asyncio
import io
import tarfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from infra.sandboxes.docker.engine import Engine as Docker
from infra.sandboxes.docker.images import ImageRecord, Images
from infra.sandboxes.docker.recipes import BASE
from infra.sandboxes.host import SandboxHost
from infra.sandboxes.inside import Worlds as Inside
from infra.sandboxes.unsafe_local import UnsafeLocalLauncher
from schemas.decision import Decision
from schemas.sandbox import DriverName
from schemas.task import Task
from schemas.view import View
from tests.contract.sandboxes.docker_engine import docker_host, engine_or_skip, lend_images
from tests.unit.reopen.replays import again, play
from tiltyard.episode.delivery import Reconciler
from tiltyard.policies.catalogue import SCRIPTS, open_script
from tiltyard.policies.script import call, give_up
from tiltyard.ports import Sandboxes
from tiltyard.sandbox.service import WorldService
from tiltyard.suite import shipped
from tiltyard.testing.local_world import LocalWorld
from tiltyard.testing.memory_sandboxes import MemorySandboxes
from tiltyard.testing.memory_worlds import MemoryWorlds
from tiltyard.worlds.engine import Engine
from tiltyard.worlds.registry import worlds

SLOTS = 4
REPAIR = "code-repair/repair/1"


def over_http() -> Task:
    """The family whose programs call a world, on the image that all tests share: its own would be built for it."""
    task = shipped().match(["replacement/over-http"])[0]
    dumped = task.model_dump()
    return Task.model_validate({**dumped, "sandbox": {**dumped["sandbox"], "image": BASE}})


Hosting = Callable[[], AbstractAsyncContextManager[Sandboxes]]


@pytest.fixture
def engine() -> Engine:
    return Engine(worlds(), MemoryWorlds())


def served(engine: Engine) -> Inside:
    """The worlds as programs in sandboxes reach them."""
    world = LocalWorld(engine)
    service = WorldService(world, Reconciler(world, timedelta(seconds=5)))

    async def there() -> WorldService:
        return service

    return Inside(there, timedelta(seconds=5))


@pytest.fixture(params=["bubblewrap", "docker"])
def driver(request: pytest.FixtureRequest) -> DriverName:
    found: DriverName = request.param
    return found


@pytest.fixture
def hosting(driver: DriverName, engine: Engine, request: pytest.FixtureRequest, tmp_path: Path) -> Hosting:
    """Makes a host with one driver that isolates."""
    shared = request.getfixturevalue("bubblewrap" if driver == "bubblewrap" else "docker_images")

    @asynccontextmanager
    async def made() -> AsyncIterator[Sandboxes]:
        if driver == "docker":
            async with docker_host(tmp_path, shared, SLOTS, worlds=served(engine)) as host:
                yield host
        else:
            async with SandboxHost({driver: shared}, tmp_path / "boxes", SLOTS, worlds=served(engine)) as host:
                yield host

    return made


async def replays(
    task: Task, scripts: list[str], engine: Engine, sandboxes: Sandboxes, driver: DriverName
) -> dict[str, object]:
    """What diverged, by script; some at once."""
    at_once = asyncio.Semaphore(SLOTS)

    async def one(script: str) -> object:
        async with at_once:
            boxes: dict[str, Any] = {"sandboxes": sandboxes, "driver": driver, "engine": engine}
            original = await play(task, open_script(script, task), name=f"{script}-original", **boxes)
            verdict = await again(original, name=f"{script}-replay", **boxes)
            return verdict if verdict.diverged or verdict.differs or verdict.not_compared else None

    found = await asyncio.gather(*map(one, scripts))
    return {script: verdict for script, verdict in zip(scripts, found, strict=True) if verdict is not None}


async def test_every_scripted_episode_of_code_repair_replays(
    hosting: Hosting, engine: Engine, driver: DriverName
) -> None:
    async with hosting() as sandboxes:
        assert await replays(shipped().task(REPAIR), list(SCRIPTS), engine, sandboxes, driver) == {}


async def test_a_world_that_programs_call_replays(hosting: Hosting, engine: Engine, driver: DriverName) -> None:
    task = over_http()
    names = [f"reference:{reference.name}" for reference in task.references]
    async with hosting() as sandboxes:
        assert await replays(task, [*names, "do_nothing"], engine, sandboxes, driver) == {}


class Works:
    """Writes and reads files, runs commands that fail and that do not, and leaves something behind."""

    MOVES = (
        call("write_file", path="notes/a.txt", content="one\n"),
        call("shell", command="echo two >> notes/a.txt && cat notes/a.txt"),
        call("shell", command="ls; exit 3"),
        call("read_file", path="notes/a.txt"),
        call("read_file", path="nothing.txt"),
        call("shell", command="rm notes/a.txt && cat notes/a.txt"),
    )

    async def act(self, view: View) -> Decision:
        return self.MOVES[view.turn] if view.turn < len(self.MOVES) else give_up("enough")


def without_tests() -> Task:
    """A task that any driver may play: nothing in it is hidden."""
    task = shipped().task(REPAIR)
    kept = [one.model_dump() for one in task.contracts if one.kind != "tests"]
    return Task.model_validate({**task.model_dump(), "contracts": kept})


@pytest.mark.parametrize("driver", ["memory", "unsafe-local"])
async def test_commands_replay_where_nothing_isolates(driver: str, engine: Engine, tmp_path: Path) -> None:
    async with SandboxHost({"unsafe-local": UnsafeLocalLauncher()}, tmp_path / "boxes", SLOTS) as host:
        boxes: dict[str, Any] = {"sandboxes": MemorySandboxes(), "engine": engine}
        if driver == "unsafe-local":
            boxes = {"sandboxes": host, "engine": engine, "driver": driver}
        original = await play(without_tests(), Works(), **boxes)
        assert len(original.trace.evidence.turns) == len(Works.MOVES) + 1
        verdict = await again(original, **boxes)
    assert (verdict.diverged, verdict.differs, verdict.not_compared) == (False, (), ())


@pytest.fixture
def another_image(docker_images: Path, tmp_path: Path) -> Iterator[Path]:
    """A folder in which the base image is one with a file more."""
    with engine_or_skip() as docker:
        record = Images(docker, docker_images).get(BASE)
        made = with_a_file(docker, record)
        folder = tmp_path / "images"
        lend_images(docker_images, folder)
        (changed,) = (file for file in folder.glob("*.json") if f'"{BASE}"' in file.read_text())
        changed.write_text(record.model_copy(update={"id": made}).model_dump_json())
        try:
            yield folder
        finally:
            docker.images.remove(made, force=True)


def with_a_file(docker: Docker, record: ImageRecord) -> str:
    """The id of an image with ``/opt/added`` on top of it."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        member = tarfile.TarInfo("opt/added")
        member.size = len(b"changed\n")
        tar.addfile(member, io.BytesIO(b"changed\n"))
    container = docker.containers.create(record.id, ["true"], labels={"tiltyard": "image"})
    try:
        container.put_archive("/", packed.getvalue())
        return str(container.commit().id)
    finally:
        container.remove(force=True)


class Looks:
    """Works, then looks at what the image has."""

    MOVES = (call("shell", command="echo begun"), call("shell", command="cat /opt/added || true"))

    async def act(self, view: View) -> Decision:
        return self.MOVES[view.turn] if view.turn < len(self.MOVES) else give_up("enough")


async def test_another_image_is_the_cause_where_a_command_shows_it(
    docker_images: Path, another_image: Path, engine: Engine, tmp_path: Path
) -> None:
    task = shipped().task(REPAIR)
    docker: dict[str, Any] = {"engine": engine, "driver": "docker"}
    async with docker_host(tmp_path / "one", docker_images) as host:
        original = await play(task, Looks(), sandboxes=host, **docker)
    async with docker_host(tmp_path / "two", another_image) as host:
        verdict = await again(original, sandboxes=host, **docker)
    assert (verdict.turn, verdict.call, verdict.what) == (1, 0, "observation")
    assert verdict.cause == "environment_changed"
    (image,) = verdict.differs
    assert image.what == "sandbox.image id"
    assert image.left.startswith("sha256:")
    assert image.left != image.right
