"""The writable places of one container, mounted by the host.

A container is started with an empty folder bound at each place, as a slave of the host's. What the host mounts on
that folder afterwards is mounted in the container too, with a size and a number of files.
"""

import errno
import shutil
from collections.abc import Mapping
from pathlib import Path

from infra.sandboxes.mounts import mount_memory, share, unmount
from infra.sandboxes.volumes import volumes_of
from schemas.sandbox import WORK, SandboxLimits

PLACES: Mapping[str, str] = {WORK: "work", "/tmp": "tmp", "/dev/shm": "shm"}  # noqa: S108 in the container
"""Where each is in the container, and its folder's name on the host."""


class Area:
    """The places of one container, below a folder of the host's that is root's alone."""

    def __init__(self, folder: Path, user: int) -> None:
        self._folder, self._user = folder, user

    def prepare(self) -> dict[str, Path]:
        """Make the folders to bind, by their places. Raises ``OSError``."""
        made = {place: self._folder / name for place, name in PLACES.items()}
        for folder in made.values():
            folder.mkdir(parents=True)
            share(folder)
        return made

    def fill(self, limits: SandboxLimits) -> None:
        """Mount fresh places of these sizes. Raises ``OSError``."""
        for volume in volumes_of(limits):
            mount_memory(self._folder / PLACES[volume.name], volume.size, volume.files, volume.mode, self._user)

    def remove(self) -> bool:
        """Unmount and remove all of it; whether nothing is left. Again: nothing happens."""
        for name in PLACES.values():
            _unmount_all(self._folder / name)
        shutil.rmtree(self._folder, ignore_errors=True)
        return not self._folder.exists()


def _unmount_all(folder: Path) -> None:
    """Whatever is mounted there, one on the other. A folder that is bound to itself does not look like a mount."""
    try:
        while True:
            unmount(folder)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOENT):
            raise
