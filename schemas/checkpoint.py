"""The files of a sandbox as they are kept: what is there, and which objects hold the contents."""

from typing import Self

from pydantic import Field, model_validator

from schemas.base import Model
from schemas.sandbox import FileEntry, Snapshot


class Pack(Model):
    """An object with contents of files, ``size_bytes`` of them uncompressed."""

    name: str
    size_bytes: int = Field(ge=0)


class ManifestChange(Model):
    """What a manifest has other than the ``whole`` one that is named: entries that were added or changed, each with
    its place in ``packs``, and paths that are gone. ``packs`` and ``skipped`` are all that the manifest has.
    """

    whole: str
    entries: tuple[FileEntry, ...] = ()
    places: tuple[int, ...] = ()
    gone: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    packs: tuple[Pack, ...] = ()

    @model_validator(mode="after")
    def _each_has_a_place(self) -> Self:
        require_places(self.places, len(self.entries), len(self.packs))
        return self


class Manifest(Model):
    """All files of one moment. ``files`` has no contents: for each of its entries ``places`` has the number of the
    pack that its content lies in, or -1 where that is the task's, or where there is none."""

    files: Snapshot = Snapshot()
    packs: tuple[Pack, ...] = ()
    places: tuple[int, ...] = ()

    @model_validator(mode="after")
    def _each_has_a_place(self) -> Self:
        require_places(self.places, len(self.files.entries), len(self.packs))
        return self


def require_places(places: tuple[int, ...], entries: int, packs: int) -> None:
    """Raises ``ValueError`` unless each entry has the number of a pack, or -1."""
    if len(places) != entries:
        raise ValueError("places: there must be one for each entry")
    if any(not -1 <= place < packs for place in places):
        raise ValueError("places: each must be the number of one of packs, or -1")
