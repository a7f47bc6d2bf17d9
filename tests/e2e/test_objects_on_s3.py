"""A stack whose content lives in a bucket: the command line, the worker, and where the keys are not."""

import asyncio
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from infra.stores.s3_objects import S3Objects
from schemas.episode import EpisodeResult
from tests.e2e.cli.cli_calls import Cli
from tests.s3_server import ACCESS_KEY, SECRET_KEY, S3Server, s3_server
from tiltyard.trace import unpack
from workers.bootstrap.ground import open_records
from workers.settings import Settings

RUN = ("run", "replacement/reply-lost/1", "--policy", "reconcile", "--json")
BUCKET, PREFIX = "content", "of/this/ground"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with s3_server(tmp_path_factory.mktemp("s3")) as running:
        yield running


@pytest.fixture(scope="module")
def cli(server: S3Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cli]:
    variables = server.variables(BUCKET, PREFIX)
    made = Cli(tmp_path_factory.mktemp("home"), tmp_path_factory.mktemp("here"), tuple(variables.items()))
    yield made
    made("down")


@pytest.fixture(scope="module")
def ran(cli: Cli) -> dict[str, Any]:
    """What a run said, on a stack that it started."""
    said: dict[str, Any] = cli(*RUN).object
    return said


def recorded(cli: Cli, episode_id: str) -> EpisodeResult:
    with open_records(Settings.from_environment(cli.home, {})) as records:
        assert records is not None
        found = asyncio.run(records.result(episode_id))
    assert found is not None
    return found


def test_the_trace_is_in_the_bucket_and_nowhere_else(cli: Cli, server: S3Server, ran: dict[str, Any]) -> None:
    assert (ran["end"], ran["validity"], ran["score"]["total"]) == ("submitted", "valid", 1.0)
    result = recorded(cli, ran["episode_id"])
    with closing(S3Objects(server.place(BUCKET, PREFIX), patience=timedelta(seconds=30))) as objects:
        assert unpack(asyncio.run(objects.get(result.trace))).evidence.spec.episode_id == ran["episode_id"]
    assert not (cli.home / "objects").exists()


@pytest.mark.parametrize("command", ["status", "doctor", "logs", "episodes list"])
def test_no_command_shows_a_key(cli: Cli, ran: dict[str, Any], command: str) -> None:
    for option in ("--json", ""):
        said = cli(*command.split(), *filter(None, [option]))
        assert SECRET_KEY not in said.out + said.err
        assert ACCESS_KEY not in said.out + said.err


def test_no_file_holds_a_key(cli: Cli, ran: dict[str, Any]) -> None:
    folders = (cli.home, Settings.from_environment(cli.home, {}).runtime)
    files = [file for folder in folders for file in folder.rglob("*") if file.is_file()]
    assert len(files) > 5
    holding = [file for file in files if holds_a_key(file)]
    assert holding == []


def holds_a_key(file: Path) -> bool:
    content = file.read_bytes()
    return SECRET_KEY.encode() in content or ACCESS_KEY.encode() in content


def test_the_doctor_says_where_content_lives(cli: Cli, server: S3Server, ran: dict[str, Any]) -> None:
    checks = {one["name"]: one for one in cli("doctor", "--json").object["checks"]}
    assert checks["objects"]["detail"] == f"s3://{BUCKET}/{PREFIX} at {server.endpoint}"


def test_a_server_that_is_away_is_told_and_nothing_is_lost(cli: Cli, server: S3Server, ran: dict[str, Any]) -> None:
    server.kill()
    try:
        said = cli(*RUN, code=3)
        assert f"{server.endpoint} does not answer" in said.err
        assert SECRET_KEY not in said.err
        checks = {one["name"]: one for one in cli("doctor", "--json", code=3).object["checks"]}
        assert [name for name, one in checks.items() if not one["ok"]] == ["objects"]
        assert "TILTYARD_S3_ENDPOINT" in checks["objects"]["fix"]
    finally:
        server.start()
    again = cli(*RUN).object
    assert again["digests"] == ran["digests"]
