"""The worker's drivers."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from random import Random

from temporalio.client import Client

from infra.policies.driver import PolicyDriver
from infra.rpc.client import WorldClient
from infra.sandboxes.client import HostClient
from infra.stores.database import open_database
from infra.stores.journal import SqlJournal
from infra.stores.records import SqlRecords
from tiltyard.policies.catalogue import open_script, shipped
from tiltyard.ports import World
from tiltyard.testing.lossy_world import LossyWorld, Rates
from workers.assembly import Parts
from workers.bootstrap.objects import open_objects
from workers.chains import TemporalChains
from workers.settings import Settings


@asynccontextmanager
async def open_parts(settings: Settings, client: Client, *, adopts: bool = False) -> AsyncIterator[Parts]:
    """The drivers of a worker; all are closed at the end. ``adopts``: see ``PolicyDriver``."""
    policies = PolicyDriver(open_script, shipped, settings.search_path, adopts=adopts)
    with closing(open_database(settings.records_url)) as database, open_objects(settings) as objects:
        async with _world(settings) as world, HostClient(settings.sandboxes_socket) as sandboxes:
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


@asynccontextmanager
async def _world(settings: Settings) -> AsyncIterator[World]:
    """The way to the world server, through a bad network where the settings ask for one."""
    async with WorldClient(settings.world_socket) as world:
        if settings.lossy is None:
            yield world
            return
        rate = settings.lossy.rate
        rates = Rates(rate, rate, rate, rate, rate)
        lossy = LossyWorld(world, Random(settings.lossy.seed), rates)  # noqa: S311 dice, not a secret
        try:
            yield lossy
        finally:
            await lossy.aclose()
