"""What the doctor says of a stack that is not running."""

import os
import socket
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from infra.local.paths import StackPaths
from infra.local.processes import ProcessId
from infra.local.state import Phase, StackState
from infra.stores.s3_place import S3Place
from ops.cli.checks import databases, objects, stack_processes
from workers.settings import Settings


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    StackPaths(tmp_path).make()
    return Settings(home=tmp_path, runtime=tmp_path / "runtime")


def ended(settings: Settings, phase: Phase, message: str = "") -> None:
    nobody = ProcessId(pid=os.getpid(), started="never")
    state = StackState(phase=phase, supervisor=nobody, config_digest="", message=message)
    StackPaths(settings.home).state.write_text(state.model_dump_json())


def test_a_failed_stack_is_not_told_to_be_started_again(settings: Settings) -> None:
    ended(settings, "failed", "temporal ended 5 times: database disk image is malformed")
    found = stack_processes(settings)
    assert (found.ok, found.detail) == (False, "temporal ended 5 times: database disk image is malformed")
    assert "tiltyard up" not in found.fix
    assert "`tiltyard logs`" in found.fix


@pytest.mark.parametrize("phase", ["starting", "ready", "stopping"])
def test_a_killed_stack_is_repaired_by_a_start(settings: Settings, phase: Phase) -> None:
    ended(settings, phase)
    found = stack_processes(settings)
    assert (found.ok, found.detail, "`tiltyard up`" in found.fix) == (False, "was killed", True)


def test_the_database_of_temporal_is_checked_where_nothing_runs(settings: Settings) -> None:
    file = StackPaths(settings.home).temporal_database
    with closing(sqlite3.connect(file)) as database:
        database.execute("CREATE TABLE executions (id TEXT)")
        database.executemany("INSERT INTO executions VALUES (?)", [("x" * 500,)] * 500)
        database.commit()
    found = databases(settings)
    assert (found.ok, found.detail) == (True, "temporal.db can be used")
    content = bytearray(file.read_bytes())
    content[4096 * 3 : 4096 * 9] = b"\xff" * (4096 * 6)
    file.write_bytes(content)
    found = databases(settings)
    assert not found.ok
    assert "temporal.db" in found.detail


def test_the_folder_of_objects_is_tried_out_and_left_as_it_was(settings: Settings) -> None:
    found = objects(settings)
    assert (found.ok, found.detail) == (True, f"{settings.objects_folder}, made with the first object")
    assert not settings.objects_folder.exists()
    settings.objects_folder.mkdir()
    found = objects(settings)
    assert (found.ok, found.detail) == (True, str(settings.objects_folder))
    assert list(settings.objects_folder.iterdir()) == []


def test_a_folder_of_objects_that_cannot_be_used_is_named(settings: Settings) -> None:
    settings.objects_folder.write_text("a file, not a folder")
    found = objects(settings)
    assert not found.ok
    assert str(settings.objects_folder) in found.detail
    assert "--home" in found.fix


def test_a_bucket_that_does_not_answer_is_named_with_its_setting(settings: Settings) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:  # nobody answers there once it is closed
        endpoint = f"http://127.0.0.1:{taken.getsockname()[1]}"
    place = S3Place(endpoint=endpoint, bucket="bucket", prefix="some/where")
    found = objects(settings.model_copy(update={"objects": place}))
    assert not found.ok
    assert f"s3://bucket/some/where at {endpoint} does not answer" in found.detail
    assert "TILTYARD_S3_ENDPOINT" in found.fix
