"""A world server that kills itself: ``doomed_server.py FOLDER NTH before|after``; NTH 0 is never."""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from infra.rpc.server import serve
from infra.stores.database import open_database
from infra.stores.world_store import SqlWorlds
from tiltyard.testing.tally_world import TALLY
from tiltyard.worlds.engine import Engine
from tiltyard.worlds.store import WorldStore, WorldTx


class DoomedWorlds:
    """The process gets SIGKILL at the nth transaction, before or after its commit."""

    def __init__(self, store: WorldStore, nth: int, moment: str) -> None:
        self._store, self._left, self._moment = store, nth, moment

    @contextmanager
    def transaction(self) -> Iterator[WorldTx]:
        self._left -= 1
        with self._store.transaction() as tx:
            yield tx
            self._perhaps_die("before")
        self._perhaps_die("after")

    def _perhaps_die(self, moment: str) -> None:
        if self._left == 0 and moment == self._moment:
            os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    folder, nth, moment = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    worlds = DoomedWorlds(SqlWorlds(open_database(f"sqlite:///{folder}/worlds.db")), nth, moment)
    serve(Engine({"tally": TALLY}, worlds), folder / "w.sock").wait_for_termination()
