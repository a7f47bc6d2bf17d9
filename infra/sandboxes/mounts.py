"""A place of our own among the mounts of the machine, for a thread of root's.

A sandbox of root's runs as another user of the host, and what it needs (the interpreter, for one) may lie below
folders that are root's alone. So it is mounted where that user can reach it, and only the thread that starts
sandboxes sees that: nothing is left mounted when the thread or its process ends, however it ends.
"""

import ctypes
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

EMPTY_FOLDERS = ("/mnt", "/media", "/srv", "/opt")
"""Where the private place may be mounted: the first that is empty, so that it hides nothing from this thread."""

TERMINALS = 64
"""How many a sandbox may open: the kernel has some thousands, for all of them."""

_CLONE_FS, _CLONE_NEWNS = 0x00000200, 0x00020000
_MS_RDONLY, _MS_NOSUID, _MS_NODEV, _MS_NOEXEC, _MS_REMOUNT = 1, 2, 4, 8, 32
_MS_BIND, _MS_REC, _MS_SLAVE = 4096, 16384, 1 << 19
_MS_PRIVATE, _MS_SHARED = 1 << 18, 1 << 20
_MNT_DETACH = 2


def make_readable() -> None:
    """From now on others can read what the calling thread makes, whatever the process's umask is."""
    _check(ctypes.CDLL(None, use_errno=True).unshare(_CLONE_FS), "unshare")
    os.umask(0o022)


def private_place() -> Path:
    """Leave the mounts of the process, for the calling thread alone and for good, and mount an empty file system
    in memory that nobody else sees; its folder. Raises ``OSError``."""
    libc = ctypes.CDLL(None, use_errno=True)
    _check(libc.unshare(_CLONE_NEWNS), "unshare")
    # A slave: what the machine unmounts goes here too, and nothing that is mounted here goes there.
    _mount("none", "/", "", _MS_REC | _MS_SLAVE)
    for name in EMPTY_FOLDERS:
        place = Path(name)
        if place.is_dir() and not place.is_symlink() and not any(place.iterdir()):
            _mount("tmpfs", name, "tmpfs", 0, "mode=755")
            return place
    raise FileNotFoundError(f"none of {', '.join(EMPTY_FOLDERS)} is an empty folder")


def show(source: Path, target: Path) -> None:
    """Show a folder in another place too. Raises ``OSError``."""
    target.mkdir(parents=True)
    _mount(os.fspath(source), os.fspath(target), "", _MS_BIND | _MS_REC)


def mount_memory(target: Path, size: int, files: int, mode: str, user: int) -> None:
    """Mount a file system in memory for so many bytes and files, which belongs to ``user``. Raises ``OSError``."""
    target.mkdir(parents=True, exist_ok=True)
    options = f"size={size},nr_inodes={files},mode={mode},uid={user},gid={user}"
    _mount("tmpfs", os.fspath(target), "tmpfs", _MS_NOSUID | _MS_NODEV, options)


def share(folder: Path) -> None:
    """Make a folder a mount whose later mounts are seen wherever it is bound as a slave. Raises ``OSError``."""
    _mount(os.fspath(folder), os.fspath(folder), "", _MS_BIND)
    # Out of the group of the mount that it lies in, into one of its own.
    _mount("none", os.fspath(folder), "", _MS_PRIVATE)
    _mount("none", os.fspath(folder), "", _MS_SHARED)


def as_seen_by(pid: int, change: Callable[[], None]) -> None:
    """Do ``change`` in a thread that sees the mounts of another process, and ends with it. Raises ``OSError``."""

    def changed() -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        _check(libc.unshare(_CLONE_FS), "unshare")
        with open(f"/proc/{pid}/ns/mnt") as namespace:
            _check(libc.setns(namespace.fileno(), _CLONE_NEWNS), "setns")
        change()

    with ThreadPoolExecutor(1) as thread:
        thread.submit(changed).result()


def cover_for_reading(folder: Path) -> None:
    """Mount a folder on itself, for reading only: who has it open goes on writing. Raises ``OSError``."""
    path, plain = os.fspath(folder), _MS_NOSUID | _MS_NODEV | _MS_NOEXEC
    _mount(path, path, "", _MS_BIND | _MS_REC)
    _mount("none", path, "", _MS_REMOUNT | _MS_BIND | _MS_RDONLY | plain)


def close_devices() -> None:
    """Devices and terminals can be read and written as before, but nothing about them can be changed: whoever comes
    next could read their times. Raises ``OSError``."""
    for folder, plain in (("/dev/pts", _MS_NOSUID | _MS_NOEXEC), ("/dev", _MS_NOSUID)):
        _mount("none", folder, "", _MS_REMOUNT | _MS_BIND | _MS_RDONLY | plain)


def limit_terminals() -> None:
    """No more than ``TERMINALS`` may be opened in ``/dev/pts``. Raises ``OSError``."""
    options = f"max={TERMINALS},mode=620,ptmxmode=666"
    _mount("none", "/dev/pts", "", _MS_REMOUNT | _MS_NOSUID | _MS_NOEXEC, options)


def unmount(target: Path) -> None:
    """Take a mount and those below it away from here; where else they are seen they stay. Raises ``OSError``."""
    _unmount(target, _MNT_DETACH)


def unmount_unused(target: Path) -> None:
    """Take a mount away from here and from wherever else it is seen. Raises ``OSError``: EBUSY where anybody in any
    of those places has a file of it open, stands in it or has mounted something on it."""
    _unmount(target, 0)


def _unmount(target: Path, flags: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    _check(libc.umount2(os.fsencode(target), flags), f"umount {target}")


def _mount(source: str, target: str, kind: str, flags: int, options: str = "") -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    texts = [os.fsencode(text) or None for text in (source, target, kind, options)]
    _check(libc.mount(*texts[:3], ctypes.c_ulong(flags), texts[3]), f"mount {target}")


def _check(result: int, what: str) -> None:
    if result:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
