"""The folders that a sandbox may write to: in memory, each with a size.

bwrap can mount them, but cannot limit the number of files in them. The kernel takes about a KiB of memory for each
file, whatever is in it, which nobody gives back when processes are killed. So root mounts them for bwrap.
"""

import secrets
from pathlib import Path
from typing import NamedTuple

from infra.sandboxes.mounts import mount_memory, unmount
from schemas.sandbox import WORK, SandboxLimits

LEAST_FILES, BYTES_A_FILE = 4096, 1024
"""How many files and folders a volume may hold: so many, and one more for so many of its bytes."""


class Volume(NamedTuple):
    """One such folder. ``made`` is where on the host it was mounted, if it was, for bwrap to show it."""

    name: str
    size: int
    mode: str
    made: Path | None = None

    @property
    def files(self) -> int:
        return LEAST_FILES + self.size // BYTES_A_FILE


def volumes_of(limits: SandboxLimits) -> list[Volume]:
    """Those of one sandbox."""
    half = limits.disk_bytes // 2
    names = ((WORK, limits.disk_bytes, "755"), ("/tmp", half, "1777"), ("/dev/shm", half, "1777"))  # noqa: S108
    return [Volume(name, size, mode) for name, size, mode in names]


def memory_of(limits: SandboxLimits) -> int:
    """The memory that all of it takes when it is full, in bytes."""
    return sum(volume.size + volume.files * BYTES_A_FILE for volume in volumes_of(limits))


class MountedVolumes:
    """A sandbox's volumes as they lie on the host, below one mount that takes them all away again.

    Only for the thread whose place this is. ``unmount`` when the sandbox has them: it keeps what it has.
    """

    def __init__(self, place: Path, limits: SandboxLimits, user: int) -> None:
        self._base = place / secrets.token_hex(8)
        volumes = volumes_of(limits)
        mount_memory(self._base, size=2**20, files=64, mode="755", user=0)
        self.volumes = [one._replace(made=self._base / str(number)) for number, one in enumerate(volumes)]
        try:
            for one in self.volumes:
                assert one.made
                mount_memory(one.made, one.size, one.files, one.mode, user)
        except OSError:
            self.unmount()
            raise

    def unmount(self) -> None:
        """Take them out of the thread's sight. Again: nothing happens."""
        if self._base.exists():
            unmount(self._base)
            self._base.rmdir()
