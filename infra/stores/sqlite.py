"""Everything that is only true of SQLite."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from filelock import FileLock
from sqlalchemy import URL, Connection, Engine, create_engine, event

from tiltyard.errors import BadInput

BUSY_TIMEOUT_MS = 30_000
"""How long a transaction waits for another process's."""

PRAGMAS = ("journal_mode=WAL", "synchronous=NORMAL", f"busy_timeout={BUSY_TIMEOUT_MS}", "foreign_keys=ON")
"""WAL with ``synchronous=NORMAL`` survives the death of a process at any moment; a loss of power can only take
back whole transactions, never half of one."""

READ_ONLY = "tiltyard_reading"
"""The execution option of a transaction that only reads."""


class SqliteLocks:
    """One writer at a time within this process: waiting on a lock is cheaper and fairer than SQLite's polling."""

    def __init__(self) -> None:
        self._writer = threading.Lock()

    @contextmanager
    def writing(self) -> Iterator[None]:
        with self._writer:
            yield


def sqlite_engine(url: URL) -> Engine:
    """An engine whose transactions begin ``IMMEDIATE``, so that none fails half-way for want of the lock."""
    engine = create_engine(url)

    @event.listens_for(engine, "connect")
    def _connected(connection: Any, record: object) -> None:
        connection.isolation_level = None  # the driver would begin transactions of its own
        for pragma in PRAGMAS:
            connection.execute(f"PRAGMA {pragma}")

    @event.listens_for(engine, "begin")
    def _begun(connection: Connection) -> None:
        reading = connection.get_execution_options().get(READ_ONLY, False)
        connection.exec_driver_sql("BEGIN DEFERRED" if reading else "BEGIN IMMEDIATE")

    return engine


def database_file(url: URL) -> Path:
    """The file of a database. Raises ``BadInput`` for one in memory, which nothing else could open."""
    if url.database in (None, "", ":memory:"):
        raise BadInput("a database in memory is not durable", field="url", fix="give sqlite:////path/to/file.db")
    return Path(url.database)


def migration_lock(url: URL) -> FileLock:
    """Held while the schema is brought up to date: two processes may open a database at once."""
    file = database_file(url)
    file.parent.mkdir(parents=True, exist_ok=True)
    return FileLock(file.with_name(file.name + ".lock"), timeout=120)
