"""Content-addressed objects in a folder: ``ab/cd/<64 hex digits>``, the name being the SHA-256 of the bytes."""

import asyncio
import re
import secrets
from collections import OrderedDict
from pathlib import Path
from typing import Protocol

from infra.stores.whole_files import write_whole
from schemas.base import sha256
from tiltyard.errors import EnvironmentFailed, ObjectsUnreachable
from tiltyard.ports import Objects

__all__ = ["FolderObjects", "ObjectStore", "RecentObjects", "layout", "verified"]

_NAME = re.compile(r"sha256:([0-9a-f]{64})")


def layout(name: str) -> str:
    """Where an object lies below the top, in every store. Raises ``EnvironmentFailed`` for a name that is none."""
    match = _NAME.fullmatch(name)
    if match is None:
        raise EnvironmentFailed(f"object {name!r} is missing: that is not the name of an object")
    digits = match[1]
    return f"{digits[:2]}/{digits[2:4]}/{digits}"


def verified(name: str, data: bytes) -> bytes:
    """The bytes, which are those that the object is named after. Raises ``EnvironmentFailed`` for others."""
    if sha256(data) != name:
        raise EnvironmentFailed(f"object {name} does not hold the bytes that it is named after")
    return data


class ObjectStore(Objects, Protocol):
    """A place where objects stay, as an operator sees it."""

    async def try_out(self) -> bool:
        """Write something, read it and take it away again; raises as ``put`` and ``get`` do.

        False, and nothing was done: there is no folder or bucket yet.
        """
        ...


class FolderObjects:
    """Implements ``tiltyard.ports.Objects``.

    An object appears whole or not at all, also when the machine stops in the middle: it is written aside, flushed
    to disk and renamed. What is read is checked against its name. Raises ``EnvironmentFailed`` when the folder
    cannot be written, or when an object is missing or was changed, and ``ObjectsUnreachable`` when one cannot be
    read for now.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def put(self, data: bytes) -> str:
        name = sha256(data)
        await asyncio.to_thread(self._write, name, data)
        return name

    async def get(self, name: str) -> bytes:
        return await asyncio.to_thread(self._read, name)

    async def try_out(self) -> bool:
        return self._folder.exists() and await asyncio.to_thread(self._try_out)

    def path(self, name: str) -> Path:
        """Where the object of that name is or would be. Raises ``EnvironmentFailed`` for a name that is none."""
        return self._folder / layout(name)

    def _write(self, name: str, data: bytes) -> None:
        path = self.path(name)
        if _holds(path, data):
            return
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, data)
        except OSError as error:
            raise EnvironmentFailed(f"object {name} cannot be written: {error}") from error

    def _read(self, name: str) -> bytes:
        try:
            data = self.path(name).read_bytes()
        except FileNotFoundError:
            raise EnvironmentFailed(f"object {name} is missing") from None
        except OSError as error:
            raise ObjectsUnreachable(f"object {name} cannot be read: {error}") from error
        return verified(name, data)

    def _try_out(self) -> bool:
        tried, data = self._folder / f".trying-{secrets.token_hex(8)}", secrets.token_bytes(32)
        try:
            write_whole(tried, data)
            read = tried.read_bytes()
            tried.unlink()
        except OSError as error:
            raise EnvironmentFailed(f"{self._folder} cannot be used: {error}") from error
        if read != data:
            raise EnvironmentFailed(f"{self._folder} does not keep what is written to it")
        return True


class RecentObjects:
    """Implements ``tiltyard.ports.Objects`` over another store, and keeps what was lately used in memory.

    Objects never change, so what is kept is always right. At most ``limit_bytes`` are kept.
    """

    def __init__(self, objects: Objects, limit_bytes: int = 64 * 1024 * 1024) -> None:
        self._objects, self._limit_bytes = objects, limit_bytes
        self._kept: OrderedDict[str, bytes] = OrderedDict()
        self._kept_bytes = 0

    async def put(self, data: bytes) -> str:
        name = await self._objects.put(data)
        self._keep(name, data)
        return name

    async def get(self, name: str) -> bytes:
        data = self._kept.get(name)
        if data is None:
            data = await self._objects.get(name)
        self._keep(name, data)
        return data

    def _keep(self, name: str, data: bytes) -> None:
        if len(data) > self._limit_bytes:
            return
        self._kept_bytes += len(data) if name not in self._kept else 0
        self._kept[name] = data
        self._kept.move_to_end(name)
        while self._kept_bytes > self._limit_bytes:
            self._kept_bytes -= len(self._kept.popitem(last=False)[1])


def _holds(path: Path, data: bytes) -> bool:
    """Whether the object is there and whole: an object that was changed is written again, which mends it."""
    try:
        return path.read_bytes() == data
    except OSError:
        return False
