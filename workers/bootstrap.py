"""The composition root: the only place where drivers are made and plugged into the ports."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from random import Random

from temporalio.client import Client

from infra.policies.driver import PolicyDriver
from infra.rpc.client import WorldClient
from infra.stores.database import Database, open_database
from infra.stores.journal import SqlJournal
from infra.stores.objects import FolderObjects
from infra.stores.records import SqlRecords
from infra.stores.world_store import SqlWorlds
from tiltyard.policies.catalogue import open_script, shipped
from tiltyard.ports import World
from tiltyard.testing.lossy_world import LossyWorld, Rates
from tiltyard.worlds.engine import Engine
from tiltyard.worlds.registry import worlds
from workers.assembly import Parts
from workers.chains import TemporalChains
from workers.connect import connect
from workers.ground import Ground
from workers.settings import Settings


@contextmanager
def _database(url: str) -> Iterator[Database]:
    database = open_database(url)
    try:
        yield database
    finally:
        database.close()


@asynccontextmanager
async def open_parts(settings: Settings, client: Client) -> AsyncIterator[Parts]:
    """The drivers of a worker; all are closed at the end."""
    policies = PolicyDriver(open_script, shipped, settings.search_path)
    with _database(settings.records_url) as database:
        objects = FolderObjects(settings.objects)
        async with _world(settings) as world:
            try:
                yield Parts(
                    world=world,
                    journal=SqlJournal(database, objects),
                    records=SqlRecords(database),
                    objects=objects,
                    policies=policies,
                    chains=TemporalChains(client),
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


@asynccontextmanager
async def open_ground(settings: Settings) -> AsyncIterator[Ground]:
    """The ground of a running stack. Raises ``EnvironmentFailed`` when Temporal does not answer."""
    with _database(settings.records_url) as database:
        client = await connect(settings)
        yield Ground(client, SqlRecords(database), FolderObjects(settings.objects), settings)


@contextmanager
def open_engine(settings: Settings) -> Iterator[Engine]:
    """The engine of all shipped worlds over the settings' database."""
    with _database(settings.worlds_url) as database:
        yield Engine(worlds(), SqlWorlds(database))
