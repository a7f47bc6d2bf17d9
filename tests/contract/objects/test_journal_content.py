"""A journal names an object only when the store has confirmed it."""

from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

from infra.stores.database import Database, open_database
from infra.stores.journal import INLINE_BYTES, SqlJournal
from infra.stores.s3_objects import S3Objects
from schemas.base import canonical, sha256
from schemas.decision import Decision
from schemas.journal import Writer
from schemas.observation import Observation
from tests.contract.objects.scripted_s3 import SILENCE, Answer, scripted_s3
from tiltyard.errors import ObjectsUnreachable
from tiltyard.ports import Objects

WRITER = Writer(run_id="run", slice_no=0, attempt_id="a")
SHOWN = (Observation(tool="t", status="ok", content="x" * (INLINE_BYTES + 1)),)
MISSING = Answer(404)

MakeJournal = Callable[[Database, Objects], SqlJournal]


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    with closing(open_database(f"sqlite:///{tmp_path}/tiltyard.db")) as opened:
        yield opened


async def observe(journal: SqlJournal) -> None:
    await journal.observe("ep", 1, WRITER, 0, SHOWN, (), 1)


async def what_was_not_stored_is_not_named(make: MakeJournal, database: Database) -> None:
    """The service takes the bytes and is gone before it confirms; an observation after its return is whole."""
    kept = canonical([one.model_dump(mode="json") for one in SHOWN])
    with (
        scripted_s3(MISSING, SILENCE, MISSING, Answer(), Answer(200, kept)) as script,
        closing(S3Objects(script.place, patience=timedelta(0))) as objects,
    ):
        journal = make(database, objects)
        await journal.take("ep", 1, WRITER)
        await journal.decide("ep", 1, WRITER, 0, Decision(give_up="no"))
        with pytest.raises(ObjectsUnreachable, match=sha256(kept)):
            await observe(journal)
        another_worker_s = make(database, objects)
        (record,) = await another_worker_s.read("ep", 1)
        assert record.observations is None
        await observe(another_worker_s)
        (record,) = await make(database, objects).read("ep", 1)
        assert record.observations == SHOWN
        assert script.asked == ["HEAD", "PUT", "HEAD", "PUT", "GET"]


async def test_a_journal_names_nothing_that_was_not_stored(database: Database) -> None:
    await what_was_not_stored_is_not_named(SqlJournal, database)


class Hasty:
    """An object store that says done before it is."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects

    async def put(self, data: bytes) -> str:
        try:
            return await self._objects.put(data)
        except ObjectsUnreachable:
            return sha256(data)

    async def get(self, name: str) -> bytes:
        return await self._objects.get(name)


async def test_one_that_names_it_too_early_is_caught(database: Database) -> None:
    def hasty(database: Database, objects: Objects) -> SqlJournal:
        return SqlJournal(database, Hasty(objects))

    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
        await what_was_not_stored_is_not_named(hasty, database)


class NamesFirst(SqlJournal):
    """A journal that writes its row before the object."""

    async def observe(
        self,
        episode_id: str,
        generation: int,
        writer: Writer,
        turn: int,
        observations: tuple[Observation, ...],
        faults: tuple[str, ...],
        now_s: int,
    ) -> None:
        shown = canonical([one.model_dump(mode="json") for one in observations])
        row = {"shown": None, "shown_object": sha256(shown), "faults": canonical(faults), "now_s": now_s}
        self._observe((episode_id, generation), writer, turn, row)
        await super().observe(episode_id, generation, writer, turn, observations, faults, now_s)


async def test_one_that_writes_its_row_first_is_caught(database: Database) -> None:
    with pytest.raises((AssertionError, ObjectsUnreachable)):
        await what_was_not_stored_is_not_named(NamesFirst, database)
