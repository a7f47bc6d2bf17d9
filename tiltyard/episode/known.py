"""What a worker knows of a journal without reading it: what its own last slice has left there.

A slice that starts must know all turns. To read them anew each time would make an episode of n turns cost n² reads.
So a slice that ends keeps what it knows, under the name of its writer. The next one is told, in the same
transaction in which it takes the token, whose it was. Only who holds the token writes: if that was the writer of
what is kept, nobody has written since. Otherwise, and after anything went wrong, the journal is read.
"""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from schemas.base import canonical
from schemas.journal import TurnRecord, Writer
from schemas.task import Task
from tiltyard.episode.progress import Progress
from tiltyard.episode.sandboxing import checkpoint_of, has_unsaved

MOST_BYTES = 16 * 1024 * 1024
"""All that is kept, as JSON; in memory it takes several times that."""

ENTRY_BYTES = 2048
"""What is kept of an episode takes that much however little it is."""

Key = tuple[str, int]
"""An episode and its generation."""


@dataclass(frozen=True)
class Known:
    """A journal, as far as a slice must know it. ``open`` is the turn under way, ``unsaved`` whether files may have
    changed since the last checkpoint, and ``checkpoint`` its name."""

    progress: Progress
    open: TurnRecord | None = None
    unsaved: bool = False
    checkpoint: str = ""

    @property
    def bytes(self) -> int:
        """What it takes, as JSON."""
        return ENTRY_BYTES + self.progress.held_bytes() + len(canonical(self.open))


def known_of(task: Task, turns: Sequence[TurnRecord]) -> Known:
    """What a journal of these turns says; only its newest turn can be open."""
    opened = turns[-1] if turns and turns[-1].observations is None else None
    return Known(
        progress=Progress(task, turns[:-1] if opened else turns),
        open=opened,
        unsaved=has_unsaved(task, turns),
        checkpoint=checkpoint_of(turns),
    )


class KnownJournals:
    """What the slices of this worker have left. The newest are kept, up to ``most_bytes``."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._kept: OrderedDict[Key, tuple[Writer, Known, int]] = OrderedDict()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._kept)

    def taken(self, key: Key, before: Writer | None) -> Known | None:
        """What ``before``, the writer from whom the token was just taken, has left here. It is given out once: it
        changes in the hands of the slice."""
        writer, known, size = self._kept.pop(key, (None, None, 0))
        self._bytes -= size
        return known if writer is not None and writer == before else None

    def forget(self, key: Key) -> None:
        """No slice will go on with this journal."""
        self.taken(key, None)

    def keep(self, key: Key, writer: Writer, known: Known) -> None:
        """``writer`` has ended its slice and written all that ``known`` says."""
        self.forget(key)
        size = known.bytes
        self._kept[key] = writer, known, size
        self._bytes += size
        while self._bytes > self._most_bytes:
            _, (_, _, freed) = self._kept.popitem(last=False)
            self._bytes -= freed
