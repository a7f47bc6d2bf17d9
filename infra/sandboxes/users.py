"""Which user of the machine a sandbox runs as: one of its own.

Some of what the kernel hands out is counted for each user (watches of files, descriptors under way in sockets,
pages in pipes, signals that wait), whichever container they are in. Two sandboxes of one user could take them from
each other.
"""

import os
from pathlib import Path

from schemas.base import sha256

FIRST, LAST = 1_900_000_000, 1_999_999_999
"""Nobody has these users: they are far above those that systems give out, and own nothing."""


def user_of(folder: Path) -> int:
    """User and group of the sandbox with this folder; whoever knows the folder finds the same.

    Of a thousand at once, two have the same with a chance of 1 in 200.
    """
    return FIRST + int(sha256(os.fsencode(folder))[7:23], 16) % (LAST - FIRST + 1)
