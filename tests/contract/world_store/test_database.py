"""Opening databases: schema, transactions, two at once, wrong ones."""

import importlib
import pkgutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, insert, select, text, update
from sqlmodel import SQLModel

import infra.stores
from infra.stores.database import MIGRATIONS, Database, newest_revision, open_database
from infra.stores.statements import table_of
from infra.stores.world_tables import NamespaceTable
from tiltyard.errors import BadInput, EnvironmentFailed


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    opened = open_database(f"sqlite:///{tmp_path}/worlds.db")
    yield opened
    opened.close()


NAMESPACE = table_of(NamespaceTable)


def _add_namespace(connection: Connection) -> None:
    numbers = ("fence", "lease_generation", "position", "deliveries", "sealed_position", "in_flight")
    values = {"name": "ns-1", "state": "free", "reason": "", **dict.fromkeys(numbers, 0)}
    connection.execute(insert(NAMESPACE).values(values))


def test_the_migrations_make_what_the_models_say(database: Database) -> None:
    for module in pkgutil.iter_modules(infra.stores.__path__):
        importlib.import_module(f"infra.stores.{module.name}")
    with database.engine.connect() as connection:
        context = MigrationContext.configure(
            connection, opts={"compare_type": True, "compare_server_default": True}
        )
        assert compare_metadata(context, SQLModel.metadata) == []


def test_a_transaction_that_raises_leaves_nothing(database: Database) -> None:
    def fail() -> None:
        with database.transaction() as connection:
            _add_namespace(connection)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    with database.reading() as connection:
        assert connection.execute(select(NAMESPACE)).all() == []


def test_a_reader_is_not_held_up_by_a_writer_and_sees_what_was_committed(database: Database) -> None:
    with database.transaction() as connection:
        _add_namespace(connection)
        with database.reading() as beside:
            assert beside.execute(select(NAMESPACE)).all() == []
    with database.reading() as after:
        assert [row.name for row in after.execute(select(NAMESPACE)).all()] == ["ns-1"]


def test_writers_take_turns_whatever_the_number_of_threads(database: Database) -> None:
    def count() -> None:
        for _ in range(5):
            with database.transaction() as connection:
                fence = connection.execute(select(NAMESPACE.c.fence)).scalar_one()
                connection.execute(update(NAMESPACE).values(fence=fence + 1))

    with database.transaction() as connection:
        _add_namespace(connection)
    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with database.reading() as connection:
        assert connection.scalar(select(NAMESPACE.c.fence)) == 20


def test_two_openings_at_once_migrate_once(tmp_path: Path) -> None:
    opened: list[Database] = []
    url = f"sqlite:///{tmp_path}/a 100% new folder/worlds.db"
    threads = [threading.Thread(target=lambda: opened.append(open_database(url))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(opened) == 2
    for database in opened:
        database.close()


@pytest.mark.parametrize("url", ["nonsense", "oracle://there", "sqlite://", "sqlite:///:memory:"])
def test_a_wrong_url_names_the_field_and_the_fix(url: str) -> None:
    with pytest.raises(BadInput) as caught:
        open_database(url)
    assert caught.value.field == "url"
    assert caught.value.fix


def test_a_database_of_a_newer_version_is_left_alone(database: Database) -> None:
    with database.transaction() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(EnvironmentFailed, match="newer version"):
        open_database(str(database.engine.url))


@pytest.mark.parametrize(
    "made", [lambda file: file.write_bytes(b"no database " * 500), Path.mkdir], ids=["text", "folder"]
)
def test_a_file_that_is_no_database_is_named(tmp_path: Path, made: Callable[[Path], object]) -> None:
    made(tmp_path / "worlds.db")
    with pytest.raises(EnvironmentFailed, match=r"worlds\.db cannot be used .*tiltyard doctor"):
        open_database(f"sqlite:///{tmp_path}/worlds.db")


def test_the_newest_revision_is_the_one_that_alembic_ends_at() -> None:
    assert ScriptDirectory(str(MIGRATIONS)).get_current_head() == newest_revision()


def test_a_database_of_an_older_version_is_migrated(database: Database) -> None:
    with database.transaction() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '0001'"))
        for table in ("host", "turn", "journal", "outcome", "episode"):
            connection.execute(text(f"DROP TABLE IF EXISTS {table}"))
        for column in ("namespace.incarnation", "late_write.incarnation", "late_write.current_incarnation"):
            connection.execute(text("ALTER TABLE {} DROP COLUMN {}".format(*column.split("."))))
    again = open_database(str(database.engine.url))
    with again.reading() as connection:
        assert connection.scalar(text("SELECT version_num FROM alembic_version")) == newest_revision()
        assert connection.scalar(text("SELECT count(*) FROM episode")) == 0
    again.close()


def test_an_up_to_date_database_is_opened_without_alembic(database: Database) -> None:
    """Every command opens one, and Alembic costs more time than the rest of it."""
    opens = f"from infra.stores.database import open_database; open_database({str(database.engine.url)!r}).close()"
    told = "import sys; sys.exit(' '.join(name for name in sys.modules if name.startswith('alembic')))"
    done = subprocess.run([sys.executable, "-c", f"{opens}; {told}"], capture_output=True, text=True, check=False)
    assert done.stderr.strip() == ""
