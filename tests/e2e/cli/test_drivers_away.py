"""Trials for which no sandbox can be made are not planned: that is asked first, and told with a remedy."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.e2e.cli.cli_calls import Cli


@pytest.fixture
def without_docker(cli: Cli, tmp_path: Path) -> Cli:
    """On a machine whose engine does not answer."""
    return replace(cli, settings=(("DOCKER_HOST", f"unix://{tmp_path / 'nobody.sock'}"),))


def test_nothing_is_planned_where_the_driver_cannot_be_used(without_docker: Cli) -> None:
    cli = without_docker
    try:
        for options in ((), ("--detach",), ("--json",)):
            command = ("run", "code-repair/repair/1", "--policy", "reference", "--sandbox", "docker", *options)
            said = cli(*command, code=3)
            assert said.out == ""
            assert "code-repair/repair/1 runs commands, and docker does not work here: " in said.err
            assert "nothing was planned" in said.err
            assert "to mend it: " in said.err
        assert cli("episodes", "list", "--json").objects == []
        played = cli("run", "replacement/approved/1", "--policy", "reference", "--sandbox", "docker", "--json")
        assert played.object["end"] == "submitted", "a task without commands needs no sandbox"
    finally:
        cli("down")
