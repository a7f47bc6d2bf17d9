"""The worker's drivers."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing

from temporalio.client import Client

from infra.policies.driver import PolicyDriver
from infra.sandboxes.client import HostClient
from infra.stores.database import open_database
from infra.stores.journal import SqlJournal
from infra.stores.records import SqlRecords
from tiltyard.policies.catalogue import open_script, shipped
from workers.assembly import Parts
from workers.bootstrap.objects import open_objects
from workers.bootstrap.world_client import open_world_client
from workers.chains import TemporalChains
from workers.settings import Settings


@asynccontextmanager
async def open_parts(settings: Settings, client: Client, *, adopts: bool = False) -> AsyncIterator[Parts]:
    """The drivers of a worker; all are closed at the end. ``adopts``: see ``PolicyDriver``."""
    policies = PolicyDriver(open_script, shipped, settings.search_path, adopts=adopts)
    with closing(open_database(settings.records_url)) as database, open_objects(settings) as objects:
        async with open_world_client(settings) as world, HostClient(settings.sandboxes_socket) as sandboxes:
            try:
                yield Parts(
                    world=world,
                    journal=SqlJournal(database, objects),
                    records=SqlRecords(database),
                    objects=objects,
                    policies=policies,
                    chains=TemporalChains(client),
                    sandboxes=sandboxes,
                )
            finally:
                await policies.aclose()
