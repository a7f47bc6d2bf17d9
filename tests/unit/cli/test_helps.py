"""The help of a group has a whole sentence for each of its commands."""

import click
import pytest
from click.testing import CliRunner

from ops.cli.main import program

COMMANDS = program.list_commands(click.Context(program))


@pytest.mark.parametrize("words", [(), *((name,) for name in COMMANDS)], ids=lambda words: " ".join(words))
def test_no_summary_is_cut(words: tuple[str, ...]) -> None:
    said = CliRunner().invoke(program, [*words, "--help"]).output.partition("Commands:")[2]
    assert [line for line in said.splitlines() if line.endswith("...")] == []
