"""The writable places of one container, mounted by the host.

A container is started with an empty folder bound at each place, as a slave of the host's. What the host mounts on
that folder afterwards is mounted in the container too, with a size and a number of files; and is unmounted there.
"""

import errno
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from infra.sandboxes.mounts import mount_memory, share, unmount, unmount_unused
from infra.sandboxes.volumes import Volume, volumes_of
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
        share(self._folder)
        return made

    def fill(self, limits: SandboxLimits) -> None:
        """Mount fresh places of these sizes. Raises ``OSError``."""
        for volume in volumes_of(limits):
            mount_memory(self._folder / PLACES[volume.name], volume.size, volume.files, volume.mode, self._user)

    def empty(self) -> None:
        """Take the places away, with all that is in them. Raises ``OSError``: EBUSY for one that somebody stands in
        or has a file of, wherever that is; those before it are away then."""
        for name in PLACES.values():
            unmount_unused(self._folder / name)

    def unlike(self, root: Path, limits: SandboxLimits) -> list[str]:
        """Which places of the container with this root are not as ``fill`` leaves them, empty and of their size."""
        volumes = volumes_of(limits)
        return [one.name for one in volumes if _state(root / one.name[1:]) != _fresh(one, self._user)]

    def remove(self) -> bool:
        """Unmount and remove all of it; whether nothing is left. Again: nothing happens."""
        for folder in (*(self._folder / name for name in PLACES.values()), self._folder):
            _unmount_all(folder)
        shutil.rmtree(self._folder, ignore_errors=True)
        return not self._folder.exists()


def _fresh(volume: Volume, user: int) -> tuple[object, ...]:
    pages = -(-volume.size // os.sysconf("SC_PAGE_SIZE"))
    return [], int(volume.mode, 8), user, user, volume.files, volume.files - 1, pages, pages


def _state(place: Path) -> tuple[object, ...]:
    about, room = os.stat(place, follow_symlinks=False), os.statvfs(place)
    owned = (about.st_mode & 0o7777, about.st_uid, about.st_gid)
    return os.listdir(place), *owned, room.f_files, room.f_ffree, room.f_blocks, room.f_bfree


def _unmount_all(folder: Path) -> None:
    """Whatever is mounted there, one on the other. A folder that is bound to itself does not look like a mount."""
    try:
        while True:
            unmount(folder)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOENT):
            raise
