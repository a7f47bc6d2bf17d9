"""Which tasks a command is about: those that are shipped or imported, or one's own with ``--tasks``."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from tiltyard.suite import Suite
    from tiltyard.worlds.kit import WorldKind

tasks_option = click.option(
    "--tasks",
    "place",
    metavar="PATH",
    type=click.Path(exists=True, path_type=Path),
    help="Take the tasks in this folder or file instead of those that are shipped or imported.",
)


def suite(home: Path | None, place: Path | None) -> "Suite":
    """The suite at ``place``, else what is shipped and what the data folder ``home`` has of imports.

    Raises ``BadInput`` when there is none.
    """
    from tiltyard.suite import load_suite
    from tiltyard.suite.places import at_hand
    from workers.settings import Settings

    return load_suite(place) if place else at_hand(Settings.from_environment(home).suites)


def kinds(home: Path | None) -> "Mapping[str, WorldKind]":
    """The worlds that tasks are checked against: with the templates that the data folder has of imports."""
    from tiltyard.worlds.imported import WithImported
    from tiltyard.worlds.registry import worlds
    from workers.settings import Settings

    return WithImported(worlds(), Settings.from_environment(home).templates)
