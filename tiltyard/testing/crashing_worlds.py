"""A world store whose process dies at a chosen transaction."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from tiltyard.worlds.store import WorldStore, WorldTx

Moment = Literal["before commit", "after commit"]


class ProcessDied(BaseException):
    """The process is gone: nothing may catch this and go on."""


class CrashingWorlds:
    """Counts transactions from 1; the process dies at the ``nth`` one, before or after its commit."""

    def __init__(self, store: WorldStore, nth: int, moment: Moment) -> None:
        self._store, self._nth, self._moment = store, nth, moment
        self.transactions = 0

    @contextmanager
    def transaction(self) -> Iterator[WorldTx]:
        self.transactions += 1
        dies = self.transactions == self._nth
        with self._store.transaction() as tx:
            yield tx
            if dies and self._moment == "before commit":
                raise ProcessDied
        if dies:
            raise ProcessDied
