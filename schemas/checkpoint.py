"""The files of a sandbox as they are kept: what is there, and which objects hold the contents."""

from typing import Self

from pydantic import Field, model_validator

from schemas.base import Model
from schemas.sandbox import Snapshot


class Pack(Model):
    """An object with contents of files, ``size_bytes`` of them uncompressed."""

    name: str
    size_bytes: int = Field(ge=0)


class Manifest(Model):
    """All files of one moment. ``files`` has no contents: for each of its entries ``places`` has the number of the
    pack that its content lies in, or -1 where that is the task's, or where there is none."""

    files: Snapshot = Snapshot()
    packs: tuple[Pack, ...] = ()
    places: tuple[int, ...] = ()

    @model_validator(mode="after")
    def _each_has_a_place(self) -> Self:
        if len(self.places) != len(self.files.entries):
            raise ValueError("places: there must be one for each of files.entries")
        if any(not -1 <= place < len(self.packs) for place in self.places):
            raise ValueError("places: each must be the number of one of packs, or -1")
        return self
