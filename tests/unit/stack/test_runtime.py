"""The runtime folder: short, private, and the same for every command."""

import os
import shutil
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from infra.local.hold import FolderHold
from infra.local.paths import StackPaths
from infra.local.runtime import (
    LONGEST_NAME,
    Runtime,
    prepare_runtime,
    runtime_folder,
    sweep_runtime,
    usual_folder,
)
from infra.rpc.channel import address_of
from infra.sockets import LONGEST_PATH_BYTES, fits
from tiltyard.errors import BadInput, StackFailed
from workers.settings import Settings


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / ("deep-" * 20) / ("deeper-" * 20)
    StackPaths(home).make()
    return home


def test_a_deep_data_folder_has_a_short_runtime_folder(home: Path) -> None:
    folder = runtime_folder(home)
    prepare_runtime(home, folder)
    path = folder / LONGEST_NAME
    assert fits(path)
    assert not fits(home)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
    path.unlink()
    folder.rmdir()


def test_naming_it_creates_nothing(tmp_path: Path) -> None:
    home = tmp_path / "home"
    assert not runtime_folder(home).exists()
    assert not home.exists()


def test_two_data_folders_have_two(tmp_path: Path) -> None:
    assert runtime_folder(tmp_path / "a") != runtime_folder(tmp_path / "b")


def test_the_recorded_one_is_used(home: Path, tmp_path: Path) -> None:
    prepare_runtime(home, tmp_path / "r")
    assert runtime_folder(home) == tmp_path / "r"
    assert (tmp_path / "r").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("recorded", [b"", b"\n", b".", b"r\n", b"/tmp\n/var\n", b"\xff\xfe/tmp", b"/tmp/a\0b\n"])
def test_a_record_that_names_no_folder_counts_for_nothing(home: Path, recorded: bytes) -> None:
    StackPaths(home).runtime.write_bytes(recorded)
    assert runtime_folder(home) == usual_folder(home)


def test_a_record_that_is_a_folder_counts_for_nothing_and_is_named(home: Path, tmp_path: Path) -> None:
    StackPaths(home).runtime.mkdir()
    assert runtime_folder(home) == usual_folder(home)
    with pytest.raises(StackFailed, match=r"stack/runtime cannot be written .*remove it"):
        prepare_runtime(home, tmp_path / "r")


def test_a_data_folder_that_cannot_be_looked_into_has_the_usual_one(tmp_path: Path) -> None:
    """As any error of the system: a circle of links stands for a folder that is another user's."""
    (tmp_path / "stack").symlink_to("stack")
    assert runtime_folder(tmp_path) == usual_folder(tmp_path)


def test_an_open_folder_is_refused_and_left_as_it_is(home: Path, tmp_path: Path) -> None:
    (tmp_path / "r").mkdir()
    (tmp_path / "r").chmod(0o755)
    with pytest.raises(StackFailed, match=r"has the mode 755.*TILTYARD_RUNTIME"):
        prepare_runtime(home, tmp_path / "r")
    assert (tmp_path / "r").stat().st_mode & 0o777 == 0o755


@pytest.mark.parametrize("given", [".", "run/here", "~/run"])
def test_a_runtime_folder_that_depends_on_the_current_one_is_refused(given: str) -> None:
    with pytest.raises(BadInput, match="TILTYARD_RUNTIME"):
        Settings.from_environment(environment={"TILTYARD_RUNTIME": given})


def test_one_supervisor_has_the_folder_and_the_next_waits_for_it(home: Path, tmp_path: Path) -> None:
    first, second = Runtime(home, tmp_path / "r"), Runtime(home, tmp_path / "r")
    first.ready()
    with pytest.raises(StackFailed, match="another stack uses"):
        second.ready(within_s=0)
    (tmp_path / "r" / "world.sock").touch()
    second.clear("world.sock")
    assert (tmp_path / "r" / "world.sock").exists(), "not its own"
    first.leave()
    second.ready(within_s=0)
    shutil.rmtree(tmp_path / "r")
    second.ready(within_s=0)
    assert (tmp_path / "r").is_dir()
    second.leave()


def test_what_a_killed_supervisor_was_starting_holds_nothing_up(home: Path) -> None:
    """Between its fork and its program a child has the folder's hold, and no record names it."""
    folder = usual_folder(home)
    prepare_runtime(home, folder)
    (folder / "world.sock").touch()
    child = FolderHold(folder)
    assert child.take()
    with ThreadPoolExecutor(1) as pool:
        sweeping = pool.submit(sweep_runtime, home)
        time.sleep(0.2)  # it finds the folder held; were it slower than this, that would be all the same
        assert folder.exists()
        child.release()
        sweeping.result()
    assert not folder.exists()


def test_a_link_is_refused(home: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "r").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StackFailed, match=r"is not a folder.*TILTYARD_RUNTIME"):
        prepare_runtime(home, tmp_path / "r")


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a folder to somebody else")
def test_somebody_elses_folder_is_refused(home: Path, tmp_path: Path) -> None:
    (tmp_path / "r").mkdir()
    os.chown(tmp_path / "r", 12345, 12345)
    with pytest.raises(StackFailed, match="belongs to user 12345"):
        prepare_runtime(home, tmp_path / "r")


def test_a_folder_too_long_for_sockets_is_refused(home: Path, tmp_path: Path) -> None:
    with pytest.raises(StackFailed, match="too long for a socket"):
        prepare_runtime(home, tmp_path / ("x" * 100))


def test_client_and_folder_keep_to_one_limit(home: Path, tmp_path: Path) -> None:
    """The longest runtime folder that is accepted holds a socket that the client accepts, and no byte more."""
    room = LONGEST_PATH_BYTES - len(os.fsencode(tmp_path / LONGEST_NAME)) - 1
    longest = tmp_path / ("x" * room)
    prepare_runtime(home, longest)
    assert address_of(longest / LONGEST_NAME).startswith("unix:")
    longer = tmp_path / ("x" * (room + 1))
    with pytest.raises(StackFailed):
        prepare_runtime(home, longer)
    with pytest.raises(BadInput, match="longer than 103 bytes"):
        address_of(longer / LONGEST_NAME)
