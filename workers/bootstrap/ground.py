"""What a command needs of a running stack."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing

from infra.stores.database import open_database
from infra.stores.objects import FolderObjects
from infra.stores.records import SqlRecords
from workers.connect import connect
from workers.ground import Ground
from workers.settings import Settings


@asynccontextmanager
async def open_ground(settings: Settings) -> AsyncIterator[Ground]:
    """The ground of a running stack. Raises ``EnvironmentFailed`` when Temporal does not answer."""
    with closing(open_database(settings.records_url)) as database:
        client = await connect(settings)
        yield Ground(client, SqlRecords(database), FolderObjects(settings.objects), settings)
