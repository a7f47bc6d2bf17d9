"""An S3 service that dies and comes back while episodes run: nothing is lost, nothing is done twice."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import pytest
from temporalio.client import Client

from infra.stores.database import open_database
from infra.stores.journal import INLINE_BYTES, SqlJournal
from infra.stores.s3_objects import S3Objects
from infra.stores.s3_place import S3Place
from schemas.base import canonical
from schemas.decision import Decision
from schemas.episode import EpisodeResult, EpisodeSpec
from schemas.task import Task
from schemas.view import View
from tests.s3_server import S3Server, s3_server
from tests.workflow.arena import Arena, arena, calls, tally_task
from tiltyard.episode.grading import examine
from tiltyard.episode.tasks import TaskShelf
from tiltyard.errors import ObjectsUnreachable
from tiltyard.ports import Objects
from tiltyard.trace import Trace, unpack
from workers.assembly import Parts

LARGE = {"params": {"size": 800}}
TURNS = 4


def reading(view: View) -> Decision:
    """Adds to a tally and reads what is longer than a journal's row may be, again and again."""
    if view.turn == TURNS:
        return Decision(submit={"done": True})
    if view.turn % 2:
        return calls("names")
    return calls("add", name="apples" if view.turn == 0 else f"new-{view.turn}", operation_id=f"op-{view.turn}")


def reading_task() -> Task:
    return tally_task(template=LARGE)


class Watched:
    """Objects that say when they were out of reach."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self.missed = asyncio.Event()

    async def put(self, data: bytes) -> str:
        with self._told():
            return await self._objects.put(data)

    async def get(self, name: str) -> bytes:
        with self._told():
            return await self._objects.get(name)

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except ObjectsUnreachable:
            self.missed.set()
            raise


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with s3_server(tmp_path_factory.mktemp("s3")) as running:
        yield running


@pytest.fixture
def bucket(server: S3Server) -> S3Place:
    return server.place(f"bucket-{uuid4()}")


@asynccontextmanager
async def ground(client: Client, folder: Path, bucket: S3Place) -> AsyncIterator[tuple[Arena, Parts, Watched]]:
    """An arena whose content lives in the bucket, with a worker."""
    with (
        closing(S3Objects(bucket, patience=timedelta(milliseconds=200))) as objects,
        closing(open_database(f"sqlite:///{folder}/records.db")) as database,
    ):
        watched = Watched(objects)
        async with arena(client, {"reading": reading}, folder) as place:
            parts = replace(place.parts, objects=watched, journal=SqlJournal(database, watched))
            async with place.worker(parts=parts):
                yield place, parts, watched


async def planned(place: Arena, parts: Parts) -> EpisodeSpec:
    spec = await place.plan(reading_task(), "reading")
    await TaskShelf(parts.objects).store(reading_task())
    return spec


async def kept_trace(bucket: S3Place, result: EpisodeResult) -> Trace:
    """What the bucket holds, through a driver that has never seen it."""
    with closing(S3Objects(bucket, patience=timedelta(seconds=30))) as objects:
        return unpack(await objects.get(result.trace))


@pytest.fixture
async def undisturbed(client: Client, tmp_path: Path, bucket: S3Place) -> str:
    """The digest of an episode during which nothing happened."""
    folder = tmp_path / "undisturbed"
    folder.mkdir()
    async with ground(client, folder, bucket) as (place, parts, watched):
        spec = await planned(place, parts)
        await (await place.start(spec)).result()
        assert not watched.missed.is_set()
        return (await place.outcome(spec)).digests.trace


@pytest.mark.parametrize("step", ["lease", "call", "answering", "seal", "facts"])
async def test_a_server_that_dies_and_comes_back_changes_nothing(
    client: Client,
    tmp_path: Path,
    server: S3Server,
    bucket: S3Place,
    undisturbed: str,
    step: str,
) -> None:
    """The episode meets the dead server before it is started again: it has missed it at least once."""
    async with ground(client, tmp_path, bucket) as (place, parts, watched):
        spec = await planned(place, parts)
        gate = place.world.gates[step]
        gate.shut()
        handle = await place.start(spec)
        await gate.reached.wait()
        server.kill()
        gate.open()
        async with asyncio.timeout(60):
            await watched.missed.wait()
        await asyncio.to_thread(server.start)
        await handle.result()
        result = await place.outcome(spec)
        assert (result.end, result.validity) == ("submitted", "valid"), result.reason
        assert result.digests.trace == undisturbed
        assert result.counts.effects == TURNS / 2
        trace = await kept_trace(bucket, result)
        assert examine(trace.task, trace.evidence, trace.tools).digests.trace == undisturbed
        assert max(len(canonical(turn.observations)) for turn in trace.evidence.turns) > INLINE_BYTES
