"""What every unix socket here must keep to."""

import os
import socket
from pathlib import Path

from tiltyard.errors import BadInput

LONGEST_PATH_BYTES = 103
"""Longest path of a unix socket. Linux allows 107 bytes, macOS 103: what works on one works on the other."""


def fits(path: Path) -> bool:
    """Whether a socket can have this path."""
    return len(os.fsencode(path)) <= LONGEST_PATH_BYTES


def usable(path: Path) -> Path:
    """The path, for a socket. Raises ``BadInput`` when it is too long for one."""
    if not fits(path):
        raise BadInput(
            f"{path} is longer than {LONGEST_PATH_BYTES} bytes",
            field="socket",
            fix="use a folder with a short path",
        )
    return path


def listening(path: Path) -> bool:
    """Whether somebody listens on the unix socket."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(1)
        return probe.connect_ex(os.fspath(path)) == 0
