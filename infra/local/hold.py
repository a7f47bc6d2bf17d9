"""Holding a folder: while one process holds it no other does, also when it is removed and made again.

The folder itself is locked, so nothing is left in it, and cleaners of temporary folders that heed locks spare it.
"""

import fcntl
import os
from pathlib import Path


class FolderHold:
    """A hold on the folder that has this path now; it ends with ``release`` or with the process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._descriptor = -1

    @property
    def holds(self) -> bool:
        """Whether the folder at the path is the one that we hold: an open folder's number is not used again."""
        if self._descriptor < 0:
            return False
        try:
            return os.path.samestat(os.fstat(self._descriptor), self.folder.stat())
        except OSError:
            return False

    def take(self) -> bool:
        """Hold the folder that is there now; false when another process does, or it has just vanished."""
        self.release()
        try:
            self._descriptor = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, FileNotFoundError):
            self.release()
        return self.holds

    def release(self) -> None:
        """Let go of it."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
