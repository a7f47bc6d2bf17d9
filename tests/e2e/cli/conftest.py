"""A command line on a data folder without a stack, and one on a stack that the module's tests share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.cli.cli_calls import Cli


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    """On a data folder that does not exist yet; the test starts no stack on it."""
    folder = tmp_path / "here"
    folder.mkdir()
    return Cli(tmp_path / "home", folder)


@pytest.fixture(scope="module")
def stack_cli(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cli]:
    """On a stack of real processes, started on demand by the first command and ended after the last test."""
    home = tmp_path_factory.mktemp("home") / ("a-deep-folder-" * 8 + "with %41?b#c ü")
    made = Cli(home, tmp_path_factory.mktemp("here"))
    yield made
    made("down")
