"""What a command needs of a running stack."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, contextmanager

from infra.stores.database import open_database
from infra.stores.journal import SqlJournal
from infra.stores.records import SqlRecords
from tiltyard.ports import Objects
from workers.bootstrap.objects import open_objects
from workers.connect import connect
from workers.ground import Ground
from workers.settings import Settings


@contextmanager
def open_records(settings: Settings) -> Iterator[SqlRecords | None]:
    """What a data folder has recorded, with or without a stack; ``None`` for a folder that has no records yet."""
    if not (settings.home / "records.db").exists():
        yield None
        return
    with closing(open_database(settings.records_url)) as database:
        yield SqlRecords(database)


@contextmanager
def open_journal(settings: Settings, objects: Objects) -> Iterator[SqlJournal]:
    """The journals of a data folder that has records, with or without a stack."""
    with closing(open_database(settings.records_url)) as database:
        yield SqlJournal(database, objects)


@asynccontextmanager
async def open_ground(settings: Settings) -> AsyncIterator[Ground]:
    """The ground of a running stack. Raises ``EnvironmentFailed`` when Temporal does not answer."""
    with closing(open_database(settings.records_url)) as database, open_objects(settings) as objects:
        client = await connect(settings)
        yield Ground(client, SqlRecords(database), SqlJournal(database, objects), objects, settings)
