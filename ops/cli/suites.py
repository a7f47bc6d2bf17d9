"""Which tasks a command is about: those that are shipped, or one's own with ``--tasks``."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from tiltyard.suite import Suite

tasks_option = click.option(
    "--tasks",
    "place",
    metavar="PATH",
    type=click.Path(exists=True, path_type=Path),
    help="Take the tasks in this folder or file instead of the shipped ones.",
)


def suite(place: Path | None) -> "Suite":
    """The suite at ``place``, without one the shipped suite. Raises ``BadInput`` when there is none."""
    from tiltyard.suite import load_suite, shipped

    return load_suite(place) if place else shipped()
