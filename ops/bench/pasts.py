"""What it costs the world that an episode goes on from the middle of another, by how much had happened there."""

import gc
import time
from collections.abc import Sequence
from contextlib import closing
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

from infra.local.stack import Say
from infra.rpc.client import WorldClient
from infra.rpc.server import serve
from infra.stores.database import open_database
from infra.stores.world_store import SqlWorlds
from ops.bench.figures import Figure, Measure, interleaved
from schemas.branch import Past
from tiltyard.errors import EnvironmentFailed
from tiltyard.testing.engine_bench import delivery_request, lease_request
from tiltyard.testing.memory_worlds import MemoryWorlds
from tiltyard.testing.tally_world import TALLY
from tiltyard.worlds.engine import Engine

ROUNDS = 10
TURNS = (0, 5, 500, 5_000)
NAMES = 1_000


async def measure(most: int, say: Say, turns: Sequence[int] = TURNS) -> list[Figure]:
    """Leases from a world server, over gRPC and on its SQLite store, that begin with the past of so many turns."""
    pasts = {number: _past(number) for number in turns}
    gc.freeze()  # this process has all of them in memory, which no worker and no world server has
    with (
        TemporaryDirectory(prefix="tiltyard-bench-") as folder,
        closing(open_database(f"sqlite:///{Path(folder) / 'worlds.db'}")) as database,
    ):
        socket, names = Path(folder) / "w.sock", count(1)
        server = serve(Engine({TALLY.name: TALLY}, SqlWorlds(database)), socket)
        async with WorldClient(socket) as client:
            leases = {_of_turns(number, past): _lease(client, past, names) for number, past in pasts.items()}
            series = await interleaved(leases, max(1, min(ROUNDS, most // 10)))
        server.stop(None).wait()
    figures = [Figure.of(what, series[what]) for what in leases]
    return [figures[0], *(figure.over(figures[0]) for figure in figures[1:])]


def _of_turns(turns: int, past: Past) -> str:
    return f"a lease that begins with {turns:,} turns, {len(past.ledger):,} rows of ledger" if turns else "a lease"


def _lease(client: WorldClient, past: Past, names: "count[int]") -> Measure:
    """Seconds of a lease, which is given back before the next one."""

    async def measured() -> float:
        request = lease_request(f"bench-{next(names)}")
        began = time.perf_counter()
        lease = await client.lease(request, past if past.deliveries else None)
        seconds = time.perf_counter() - began
        await client.seal(lease.namespace, lease.generation)
        await client.drain(lease.namespace, lease.generation)
        if not await client.recycle(lease.namespace, lease.generation):
            raise EnvironmentFailed("the namespace was quarantined")
        return seconds

    return measured


def _past(turns: int) -> Past:
    """An episode that writes under an operation id in each of its turns."""
    engine = Engine({TALLY.name: TALLY}, MemoryWorlds())
    lease = engine.lease(lease_request("parent"))
    for turn in range(turns):
        name = f"parent/{lease.generation}/{turn}/0"
        engine.call(
            delivery_request(lease, name, "add", name=f"tally-{turn % NAMES}", operation_id=f"operation-{turn}")
        )
    return engine.so_far(lease.namespace, lease.generation)
