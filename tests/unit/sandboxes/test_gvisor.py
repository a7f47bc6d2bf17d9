"""What is known of gVisor without having it."""

import logging
import os
import time
from pathlib import Path

import pytest

from infra.local.processes import identify
from infra.sandboxes.docker.gvisor import ARGUMENT, FIX, guests, is_gvisor, is_set_up, tasks_of
from infra.sandboxes.docker.member import Kind, Member


@pytest.mark.parametrize(
    ("name", "expected"), [("runsc", True), ("runsc-kvm", True), ("runc", False), ("crun", False)]
)
def test_it_is_known_by_its_name(name: str, expected: bool) -> None:
    assert is_gvisor(name) is expected


@pytest.mark.parametrize("told", [{"path": "runsc"}, {"runtimeArgs": None}, {"runtimeArgs": ["--host-uds=none"]}])
def test_without_its_argument_it_is_no_offer(told: dict[str, object]) -> None:
    assert not is_set_up(told)
    assert is_set_up({**told, "runtimeArgs": ["--platform=ptrace", ARGUMENT]})
    assert f'"{ARGUMENT}"' in FIX


def test_it_has_room_for_itself_and_for_each_process() -> None:
    assert tasks_of(64) - tasks_of(8) >= 2 * 56
    assert tasks_of(0) > 64


def member(folder: Path, pid: int) -> Member:
    kind = Kind(image="i", supervisor=folder, memory_bytes=1, processes=1, runtime="runsc")
    return Member(folder=folder, kind=kind, born=time.time(), first=identify(pid))


def test_nobody_lives_in_what_has_ended(tmp_path: Path) -> None:
    gone = member(tmp_path, os.getpid())
    assert gone.first is not None
    other = gone.first.model_copy(update={"started": "another"})
    assert guests(gone.model_copy(update={"first": other})) == ()


def test_nobody_is_alone_where_it_does_not_tell(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """This process is no gVisor, and has no processes to tell of."""
    with caplog.at_level(logging.WARNING):
        assert os.getpid() in guests(member(tmp_path, os.getpid()))
    assert "does not tell" in caplog.text
