"""The name of the embedded Temporal cluster: random, kept in the data folder, and so moving with it."""

import os
import secrets
from contextlib import suppress
from pathlib import Path

from infra.local.paths import StackPaths
from tiltyard.errors import StackFailed


def cluster_id(home: Path) -> str:
    """The name of the data folder's cluster. Raises ``StackFailed`` when what is kept is no name."""
    return kept_name(StackPaths(home).cluster)


def kept_name(file: Path) -> str:
    """The name in the file; made when it is first asked for, then the same for everybody.

    Raises ``StackFailed`` when what is kept is no name.
    """
    if not file.exists():
        _make(file)
    kept = file.read_bytes().decode(errors="replace").strip()
    if not (kept.isascii() and kept.isalnum()):
        raise StackFailed(f"{file} does not hold a name: bring it back from a copy, or remove it to get a new one")
    return kept


def _make(file: Path) -> None:
    """Of several processes at once the first wins, and nobody sees a part of a name."""
    name = secrets.token_hex(8)
    fresh = file.with_name(f"{file.name}.{name}.new")
    fresh.write_text(f"{name}\n")
    with suppress(FileExistsError):
        os.link(fresh, file)
    fresh.unlink()
