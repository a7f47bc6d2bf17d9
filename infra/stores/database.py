"""Opening a database: its engine, its schema brought up to date, its transactions."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.util.exc import CommandError
from sqlalchemy import URL, Connection, Engine, make_url
from sqlalchemy.exc import ArgumentError
from sqlmodel import Session

from infra.stores.sqlite import READ_ONLY, SqliteLocks, migration_lock, sqlite_engine
from tiltyard.errors import BadInput, EnvironmentFailed

MIGRATIONS = Path(__file__).parent / "migrations"


class Database:
    """An open database. Its sessions do not expire what they loaded, and flush only when told or at commit."""

    def __init__(self, engine: Engine, locks: SqliteLocks) -> None:
        self.engine = engine
        self._locks = locks

    @contextmanager
    def transaction(self) -> Iterator[Session]:
        """A transaction that may write: commits at the end of the block, takes everything back when it raises.

        It is alone: other transactions of this kind wait until it ends.
        """
        with (
            self._locks.writing(),
            Session(self.engine, expire_on_commit=False, autoflush=False) as session,
            session.begin(),
        ):
            yield session

    @contextmanager
    def reading(self) -> Iterator[Session]:
        """A transaction that only reads, from one consistent state, beside a writer."""
        with Session(self.engine.execution_options(**{READ_ONLY: True}), autoflush=False) as session:
            yield session

    def close(self) -> None:
        self.engine.dispose()


def open_database(url: str) -> Database:
    """Open it, made if need be, with the newest schema. ``url`` is SQLAlchemy's: ``sqlite:////path/to/file.db``.

    Raises ``BadInput`` for a URL that is none or of a database that is not supported, and ``EnvironmentFailed``
    for a database that a newer version of Tiltyard has migrated.
    """
    parsed = _parsed(url)
    with migration_lock(parsed):
        engine = sqlite_engine(parsed)
        with engine.begin() as connection:
            _migrate(connection)
    return Database(engine, SqliteLocks())


def _parsed(url: str) -> URL:
    try:
        parsed = make_url(url)
    except ArgumentError as error:
        raise BadInput(f"{url!r} is no database URL", field="url", fix="give sqlite:////path/to/file.db") from error
    if parsed.get_backend_name() != "sqlite":
        raise BadInput(f"{parsed.get_backend_name()} is not supported", field="url", fix="use sqlite")
    return parsed


def _migrate(connection: Connection) -> None:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    try:
        command.upgrade(config, "head")
    except CommandError as error:
        raise EnvironmentFailed(
            f"{connection.engine.url.database} was made by a newer version of Tiltyard ({error}); "
            "update Tiltyard, or choose another data folder"
        ) from error
