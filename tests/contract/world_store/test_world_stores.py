"""Every world store passes the one kit."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.stores.database import open_database
from infra.stores.world_store import SqlWorlds
from tiltyard.testing.memory_worlds import MemoryWorlds
from tiltyard.testing.world_store_kit import WorldStoreKit
from tiltyard.worlds.store import WorldStore


class TestMemory(WorldStoreKit):
    @pytest.fixture
    def store(self) -> WorldStore:
        return MemoryWorlds()


class TestSqlite(WorldStoreKit):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[WorldStore]:
        database = open_database(f"sqlite:///{tmp_path}/worlds.db")
        yield SqlWorlds(database)
        database.close()
