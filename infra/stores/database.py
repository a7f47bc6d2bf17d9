"""Opening a database: its engine, its schema brought up to date, its transactions."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import URL, Connection, Engine, inspect, make_url, text
from sqlalchemy.exc import ArgumentError, DatabaseError

from infra.stores.sqlite import READ_ONLY, SqliteLocks, migration_lock, sqlite_engine
from tiltyard.errors import BadInput, EnvironmentFailed

MIGRATIONS = Path(__file__).parent / "migrations"


class Database:
    """An open database."""

    def __init__(self, engine: Engine, locks: SqliteLocks) -> None:
        self.engine = engine
        self._reader = engine.execution_options(**{READ_ONLY: True})
        self._locks = locks

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """A transaction that may write: commits at the end of the block, takes everything back when it raises.

        It is alone: other transactions of this kind wait until it ends.
        """
        with self._locks.writing(), self.engine.begin() as connection:
            yield connection

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A transaction that only reads, from one consistent state, beside a writer."""
        with self._reader.connect() as connection:
            yield connection

    def close(self) -> None:
        self.engine.dispose()


def open_database(url: str) -> Database:
    """Open it, made if need be, with the newest schema. ``url`` is SQLAlchemy's: ``sqlite:////path/to/file.db``.

    Raises ``BadInput`` for a URL that is none or of a database that is not supported, and ``EnvironmentFailed``
    for a database that cannot be read or written, or that a newer version of Tiltyard has migrated.
    """
    parsed = _parsed(url)
    engine = sqlite_engine(parsed)
    try:
        with migration_lock(parsed), engine.begin() as connection:
            _migrate(connection)
    except (DatabaseError, OSError) as error:
        engine.dispose()
        why = error.orig if isinstance(error, DatabaseError) else error
        raise EnvironmentFailed(
            f"the database {parsed.database} cannot be used ({why}): `tiltyard doctor` looks at it; "
            "mend it or move it away, or choose another data folder"
        ) from error
    return Database(engine, SqliteLocks())


def _parsed(url: str) -> URL:
    try:
        parsed = make_url(url)
    except ArgumentError as error:
        raise BadInput(f"{url!r} is no database URL", field="url", fix="give sqlite:////path/to/file.db") from error
    if parsed.get_backend_name() != "sqlite":
        raise BadInput(f"{parsed.get_backend_name()} is not supported", field="url", fix="use sqlite")
    return parsed


def newest_revision() -> str:
    """The schema that this program works with: migrations are named by their revision, in order."""
    return max(file.name for file in (MIGRATIONS / "versions").glob("*.py")).partition("_")[0]


def _migrate(connection: Connection) -> None:
    made = inspect(connection).has_table("alembic_version")
    recorded = connection.scalars(text("SELECT version_num FROM alembic_version")).all() if made else []
    if recorded != [newest_revision()]:
        from infra.stores.migration import upgrade

        upgrade(connection, MIGRATIONS)
