"""The writer token of a journal: who may write, as one value with no I/O, so that every driver decides alike."""

from typing import Self

from pydantic import Field

from schemas.base import Model
from schemas.journal import Writer
from tiltyard.errors import JournalClosed, Replaced


class Token(Model):
    """The token of one (episode, generation).

    ``highest`` is the highest slice number that took it, by run: a slice that starts late must not win against a
    later slice of its own run, even when another run has held the token in between.
    """

    holder: Writer | None = None
    highest: dict[str, int] = Field(default_factory=dict)
    closed: bool = False

    def taken_by(self, writer: Writer) -> Self:
        """The token in the hands of ``writer``. Raises ``JournalClosed``, or ``Replaced`` for a passed slice."""
        self.require_open()
        highest = self.highest.get(writer.run_id, writer.slice_no)
        if writer.slice_no < highest:
            raise Replaced(f"slice {writer.slice_no} starts after slice {highest} of the same run")
        return self.model_copy(
            update={"holder": writer, "highest": {**self.highest, writer.run_id: writer.slice_no}}
        )

    def require(self, writer: Writer) -> None:
        """Raises ``JournalClosed`` after the seal and ``Replaced`` when another writer holds the token."""
        self.require_open()
        if writer != self.holder:
            raise Replaced(f"slice {writer.slice_no} no longer holds the journal's writer token")

    def sealed(self) -> Self:
        return self.model_copy(update={"closed": True})

    def require_open(self) -> None:
        """Raises ``JournalClosed`` after the seal."""
        if self.closed:
            raise JournalClosed("the journal has been sealed: nothing is written any more")
