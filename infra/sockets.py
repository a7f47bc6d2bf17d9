"""What every unix socket here must keep to."""

import os
from pathlib import Path

LONGEST_PATH_BYTES = 103
"""Longest path of a unix socket. Linux allows 107 bytes, macOS 103: what works on one works on the other."""


def fits(socket: Path) -> bool:
    """Whether a socket can have this path."""
    return len(os.fsencode(socket)) <= LONGEST_PATH_BYTES
