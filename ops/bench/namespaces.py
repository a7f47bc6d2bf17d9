"""Acquiring and recycling a namespace, at templates of very different sizes: the cost must be the same."""

import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

from infra.local.stack import Say
from infra.stores.database import open_database
from infra.stores.world_store import SqlWorlds
from ops.bench.figures import Figure, Measure, Target, interleaved
from schemas.base import JsonObject
from schemas.world import DeliveryRequest, LeaseRequest, Owner, TemplateRef
from tiltyard.errors import EnvironmentFailed
from tiltyard.testing.tally_world import TALLY
from tiltyard.worlds.engine import Engine

ROUNDS = 200
SIZES = (1_000, 100_000, 1_000_000)
"""Rows of the templates."""

EQUAL = Target(most=1.5, judged_from=ROUNDS)


async def measure(most: int, say: Say, sizes: Sequence[int] = SIZES) -> list[Figure]:
    """The real engine on its SQLite store. The templates are loaded before, and that is a figure of its own.

    Where there are too few rounds to judge by, the largest template, which takes longest to load, is left out.
    """
    if most < ROUNDS:
        *sizes, left_out = sizes
        why = f"left out of a run with fewer than {ROUNDS}"
        skipped = [Figure(what=_of_rows(left_out), skipped=why)]
    else:
        skipped = []
    with TemporaryDirectory(prefix="tiltyard-bench-") as folder:
        url = f"sqlite:///{Path(folder) / 'worlds.db'}"
        with closing(open_database(url)) as database:
            desk = _Desk(Engine({TALLY.name: TALLY}, SqlWorlds(database)))
            loads = [_load(desk, size, say) for size in sizes]
            series = await interleaved({f"{size:,}": desk.measure(size) for size in sizes}, min(ROUNDS, most))
    figures = [Figure.of(_of_rows(size), series[f"{size:,}"]) for size in sizes]
    return [figures[0], *(figure.over(figures[0], EQUAL) for figure in figures[1:]), *skipped, *loads]


def _of_rows(size: int) -> str:
    return f"acquire and recycle, {size:,} rows"


def _load(desk: "_Desk", size: int, say: Say) -> Figure:
    """The first lease of a template loads it, once for the life of a world server."""
    say(f"loading a template of {size:,} rows")
    began = time.perf_counter()
    desk.cycle(size)
    return Figure.of(f"loading a template, {size:,} rows", [time.perf_counter() - began])


class _Desk:
    """Leases a namespace, changes a row of it, and gives it back."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._leased = 0

    def measure(self, size: int) -> Measure:
        async def measured() -> float:
            return self.cycle(size)

        return measured

    def cycle(self, size: int) -> float:
        """Seconds of lease and recycle; the call, the seal and the drain between them are not counted."""
        began = time.perf_counter()
        lease = self._engine.lease(self._request(size))
        leased = time.perf_counter()
        self._engine.call(
            DeliveryRequest(
                namespace=lease.namespace,
                generation=lease.generation,
                delivery_id="bench/1",
                tool="add",
                arguments={"name": "apples"},
            )
        )
        self._engine.seal(lease.namespace, lease.generation)
        self._engine.drain(lease.namespace, lease.generation)
        drained = time.perf_counter()
        if not self._engine.recycle(lease.namespace, lease.generation):
            raise EnvironmentFailed("the namespace was quarantined")
        return leased - began + time.perf_counter() - drained

    def _request(self, size: int) -> LeaseRequest:
        self._leased += 1
        params: JsonObject = {"size": size}
        name = f"bench-{self._leased}"
        return LeaseRequest(
            owner=Owner(cluster="bench", temporal_namespace="default", workflow_id=name, first_run_id=name),
            episode_id=name,
            world=TALLY.name,
            template=TemplateRef(params=params),
        )
