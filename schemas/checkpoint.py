"""The files of a sandbox as they are kept: what is there, and which objects hold the contents."""

from pydantic import Field

from schemas.base import Model
from schemas.sandbox import Snapshot


class Pack(Model):
    """An object with contents of files. ``contents`` are the digests of those in it that are needed; in all it has
    ``size_bytes``, uncompressed."""

    name: str
    contents: tuple[str, ...]
    size_bytes: int = Field(ge=0)


class Manifest(Model):
    """All files of one moment. ``files`` has no contents: each is of the task's start, or in one of ``packs``."""

    files: Snapshot = Snapshot()
    packs: tuple[Pack, ...] = ()
