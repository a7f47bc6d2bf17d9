"""The two durable parts of the effect protocol, as states to explore: real engine code, and a real journal.

Each state is interned as a number, and each operation on it is run once: both are deterministic.
"""

import asyncio
import copy
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from schemas.journal import TurnRecord
from tiltyard.ports import Journal
from tiltyard.testing.memory_journal import MemoryJournal
from tiltyard.testing.memory_worlds import MemoryWorlds, Tables
from tiltyard.worlds.engine import Engine
from tiltyard.worlds.rows import Effect, Partition
from tiltyard.worlds.store import Delivery

ResultT = TypeVar("ResultT")


class WorldStates:
    """States of a world store under an engine."""

    def __init__(self, engine: Engine, store: MemoryWorlds) -> None:
        self._engine, self._store = engine, store
        self._tables: list[Tables] = []
        self._numbers: dict[str, int] = {}
        self._done: dict[tuple[int, str], tuple[int, Any]] = {}

    def current(self) -> int:
        """The number of the store's state now."""
        tables = self._store.snapshot()
        number = self._numbers.setdefault(_value_of(tables), len(self._tables))
        if number == len(self._tables):
            self._tables.append(tables)
        return number

    def after(self, state: int, name: str, run: Callable[[Engine], ResultT]) -> tuple[int, ResultT | Exception]:
        """The state after an operation, and its result or error. Equal names are equal operations."""
        if (state, name) not in self._done:
            self._store.restore(self._tables[state])
            result: ResultT | Exception
            try:
                result = run(self._engine)
            except Exception as error:
                result = error
            self._done[state, name] = (self.current(), result)
        return self._done[state, name]

    def deliveries(self, state: int, partition: Partition) -> dict[str, Delivery]:
        found = self._tables[state].deliveries.items()
        return {key[2]: delivery for key, delivery in found if key[:2] == partition}

    def ledger(self, state: int, partition: Partition) -> tuple[Effect, ...]:
        """The entity changes of a generation, by position."""
        found = [effect for key, effect in self._tables[state].ledger.items() if key[:2] == partition]
        return tuple(effect for effect in sorted(found, key=lambda one: one.position) if not effect.row.system)


class JournalStates:
    """States of a journal."""

    def __init__(self, journal: MemoryJournal) -> None:
        self._journals = [journal]
        self._numbers = {repr(vars(journal)): 0}
        self._done: dict[tuple[int, str], tuple[int, Exception | None]] = {}

    def after(
        self, state: int, name: str, run: Callable[[Journal], Coroutine[Any, Any, None]]
    ) -> tuple[int, Exception | None]:
        if (state, name) not in self._done:
            journal, error = copy.deepcopy(self._journals[state]), None
            try:
                at_once(run(journal))
            except Exception as raised:
                error = raised
            number = self._numbers.setdefault(repr(vars(journal)), len(self._journals))
            if number == len(self._journals):
                self._journals.append(journal)
            self._done[state, name] = (number, error)
        return self._done[state, name]

    def turns(self, state: int, episode_id: str, generation: int) -> tuple[TurnRecord, ...]:
        return at_once(self._journals[state].read(episode_id, generation))


def at_once(coroutine: Coroutine[Any, Any, ResultT]) -> ResultT:
    """Run a coroutine that waits for nothing."""
    try:
        coroutine.send(None)
    except StopIteration as returned:
        result: ResultT = returned.value
        return result
    coroutine.close()
    raise asyncio.InvalidStateError("it waits")


def _value_of(tables: Tables) -> str:
    return repr([sorted(table.items()) for table in tables])
