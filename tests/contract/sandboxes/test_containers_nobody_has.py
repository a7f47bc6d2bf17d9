"""A container that nobody has is found by its label and by its folder, and ended; what somebody has is let be."""

import asyncio
import shutil
import signal
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from infra.sandboxes.cgroups import memory_of, processes_of
from infra.sandboxes.docker import member as members
from infra.sandboxes.docker.containers import Containers
from infra.sandboxes.docker.engine import Engine
from infra.sandboxes.docker.images import Images
from infra.sandboxes.docker.launcher import DockerLauncher
from infra.sandboxes.docker.member import Kind, Member
from infra.sandboxes.docker.recipes import BASE
from infra.sandboxes.docker.supervisors import Supervisors
from infra.sandboxes.mounts import unmount
from schemas.sandbox import SandboxLimits
from tests.contract.sandboxes.docker_engine import engine_or_skip, mounts_below
from tests.contract.sandboxes.reset_yard import reset_yard


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with engine_or_skip() as engine:
        yield engine


@pytest.fixture
def kind(engine: Engine, docker_images: Path, tmp_path: Path) -> Kind:
    image, limits = Images(engine, docker_images).get(BASE).id, SandboxLimits()
    return Kind(
        image=image,
        supervisor=Supervisors(engine, tmp_path / "shared").of(image),
        memory_bytes=memory_of(limits),
        processes=processes_of(limits),
        runtime="runc",
    )


def is_there(engine: Engine, member: Member) -> bool:
    return bool(engine.api.containers(all=True, filters={"name": member.name}))


def test_what_was_made_and_never_given_out_is_ended_by_the_next_process(
    engine: Engine, kind: Kind, tmp_path: Path
) -> None:
    before, after = Containers(engine, tmp_path / "home"), Containers(engine, tmp_path / "home")
    made = before.make(kind)
    assert (before.strays(), is_there(engine, made)) == (0, True)
    assert (after.strays(), is_there(engine, made)) == (1, False)
    assert after.strays() == 0
    assert mounts_below(tmp_path) == []


def test_one_of_which_there_is_no_record_is_ended(engine: Engine, kind: Kind, tmp_path: Path) -> None:
    made = Containers(engine, tmp_path / "home").make(kind)
    (made.folder / members.RECORD).write_text("{")
    assert (Containers(engine, tmp_path / "home").strays(), is_there(engine, made)) == (1, False)


def test_what_is_being_made_is_spared(engine: Engine, kind: Kind, tmp_path: Path) -> None:
    containers = Containers(engine, tmp_path / "home")
    with ThreadPoolExecutor(1) as thread:
        making = thread.submit(containers.make, kind)
        swept = [containers.strays()]
        while not making.done():
            swept.append(containers.strays())
    made = making.result()
    assert (sum(swept), made.lives) == (0, True)
    assert containers.end(made.folder)


def test_what_another_folder_has_is_let_be_until_that_is_removed(
    engine: Engine, kind: Kind, tmp_path: Path
) -> None:
    made = Containers(engine, tmp_path / "theirs").make(kind)
    ours = Containers(engine, tmp_path / "ours")
    assert (ours.strays(), is_there(engine, made)) == (0, True)
    shutil.rmtree(tmp_path / "theirs", ignore_errors=True)  # what is mounted cannot be removed
    assert (ours.strays(), is_there(engine, made)) == (1, False)
    assert mounts_below(tmp_path) == []
    assert not made.folder.exists()


def test_a_folder_that_is_only_out_of_sight_has_its_container(engine: Engine, kind: Kind, tmp_path: Path) -> None:
    """As another's is that has a mount namespace of its own."""
    made = Containers(engine, tmp_path / "theirs").make(kind)
    (tmp_path / "theirs").rename(tmp_path / "unseen")
    assert (Containers(engine, tmp_path / "ours").strays(), is_there(engine, made)) == (0, True)
    (tmp_path / "unseen").rename(tmp_path / "theirs")
    assert Containers(engine, tmp_path / "theirs").end(made.folder)


@pytest.mark.parametrize("said", ["", ".", "..", "theirs", "/", "/theirs/0123456789abcdef/.."])
def test_what_a_label_names_is_no_folder_of_a_container(said: str, tmp_path: Path) -> None:
    """It only asks: nothing is ended here."""
    assert not members.may_be_one(Path(said))
    assert members.may_be_one(tmp_path / "0123456789abcdef")


def test_a_removed_folder_whose_mounts_are_gone_too(engine: Engine, kind: Kind, tmp_path: Path) -> None:
    made = Containers(engine, tmp_path / "theirs").make(kind)
    unmount(made.folder / "places")
    shutil.rmtree(tmp_path / "theirs")
    assert (Containers(engine, tmp_path / "ours").strays(), is_there(engine, made)) == (1, False)


def test_what_is_left_is_ended_by_a_process_that_is_closed(
    engine: Engine, kind: Kind, docker_images: Path, tmp_path: Path
) -> None:
    made = Containers(engine, tmp_path / "shared" / "containers").make(kind)
    with engine_or_skip() as another:
        DockerLauncher(another, Images(another, docker_images), tmp_path / "shared").close()
    assert not is_there(engine, made)


async def test_a_host_that_is_killed_in_the_middle_of_a_reset(docker_images: Path, tmp_path: Path) -> None:
    """Its container is never used again, and neither is the one that waited."""
    program = "tests.contract.sandboxes.docker_host_in_a_reset"
    doomed = await asyncio.create_subprocess_exec(
        sys.executable, "-m", program, str(tmp_path), str(docker_images), cwd=Path(__file__).parents[3]
    )
    while "resetting" not in (states := states_of(tmp_path)).values():
        await asyncio.sleep(0.02)
        assert doomed.returncode is None
    doomed.send_signal(signal.SIGKILL)
    await doomed.wait()
    assert sorted(states.values()) == sorted(["resetting", "idle"])
    async with reset_yard(tmp_path, docker_images) as yard:
        (record,) = await yard.host.sandboxes()
        assert record.state == "lost"
        await yard.host.release(record.ref)
        assert list(states_of(tmp_path).values()) == ["idle"]
        assert await yard.host.sweep() == 1
        assert states_of(tmp_path) == {}
        box = await yard.made()
        assert (await yard.over(box)).served_before == 0
    assert mounts_below(tmp_path) == []


def states_of(folder: Path) -> dict[str, str]:
    found = map(members.read, members.folders(folder / "shared" / "containers"))
    return {member.name: member.state for member in found if member is not None}


def test_a_runtime_that_the_engine_does_not_have_is_named(
    engine: Engine, docker_images: Path, tmp_path: Path
) -> None:
    offer = DockerLauncher(engine, Images(engine, docker_images), tmp_path, runtime="no-such").offer()
    assert not offer.available
    assert offer.problem == "the engine has no runtime 'no-such'"
    assert offer.fix.startswith("set TILTYARD_DOCKER_RUNTIME to one of ")
    assert "io.containerd" not in offer.fix
    assert "runc" in offer.fix
