"""What the world server needs."""

from collections.abc import Iterator
from contextlib import closing, contextmanager

from infra.stores.database import open_database
from infra.stores.world_store import SqlWorlds
from tiltyard.worlds.engine import Engine
from tiltyard.worlds.imported import WithImported
from tiltyard.worlds.registry import worlds
from workers.settings import Settings


@contextmanager
def open_engine(settings: Settings) -> Iterator[Engine]:
    """The engine of all shipped worlds, with imported templates, over the settings' database."""
    with closing(open_database(settings.worlds_url)) as database:
        yield Engine(WithImported(worlds(), settings.templates), SqlWorlds(database))
