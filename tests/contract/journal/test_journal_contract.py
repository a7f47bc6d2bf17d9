"""Every journal passes the kit, and the kit notices journals that break a promise."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlmodel import select

from infra.stores.database import Database, open_database
from infra.stores.journal import INLINE_BYTES, SqlJournal
from infra.stores.record_tables import JournalTable
from schemas.decision import Decision
from schemas.journal import TurnRecord, Writer
from schemas.observation import Observation
from tiltyard.errors import EnvironmentFailed, JournalClosed, Replaced
from tiltyard.testing.journal_kit import JOURNAL_CHECKS, JournalCheck
from tiltyard.testing.memory_journal import MemoryJournal
from tiltyard.testing.memory_objects import MemoryObjects


@pytest.mark.parametrize("check", JOURNAL_CHECKS, ids=lambda check: check.__name__)
async def test_memory_journal(check: JournalCheck) -> None:
    await check(MemoryJournal())


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    opened = open_database(f"sqlite:///{tmp_path}/tiltyard.db")
    yield opened
    opened.close()


@pytest.mark.parametrize("check", JOURNAL_CHECKS, ids=lambda check: check.__name__)
async def test_sql_journal(check: JournalCheck, database: Database) -> None:
    await check(SqlJournal(database, MemoryObjects()))


WRITER = Writer(run_id="run", slice_no=0, attempt_id="a")
DECISION = Decision(give_up="no")


async def journalled(database: Database, objects: MemoryObjects, content: str) -> SqlJournal:
    journal = SqlJournal(database, objects)
    await journal.take("ep", 1, WRITER)
    await journal.decide("ep", 1, WRITER, 0, DECISION)
    await journal.observe("ep", 1, WRITER, 0, (Observation(tool="t", status="ok", content=content),), (), 1)
    return journal


@pytest.mark.parametrize(("length", "objects_kept"), [(1000, 0), (INLINE_BYTES + 1, 1)])
async def test_only_large_observations_become_objects(database: Database, length: int, objects_kept: int) -> None:
    objects = MemoryObjects()
    journal = await journalled(database, objects, "x" * length)
    assert len(objects.contents) == objects_kept
    (record,) = await journal.read("ep", 1)
    assert record.observations is not None
    assert record.observations[0].content == "x" * length


@pytest.mark.parametrize("spoilt", [None, b"[]"], ids=["missing", "tampered"])
async def test_an_observation_whose_object_is_gone_is_an_environment_failure(
    database: Database, spoilt: bytes | None
) -> None:
    objects = MemoryObjects()
    await journalled(database, objects, "x" * 10_000)
    (name,) = objects.contents
    if spoilt is None:
        del objects.contents[name]
    else:
        objects.contents[name] = spoilt
    another_worker_s = SqlJournal(database, objects)
    with pytest.raises(EnvironmentFailed, match=name):
        await another_worker_s.read("ep", 1)


async def test_a_journal_outlives_the_process_that_wrote_it(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/tiltyard.db"
    first = open_database(url)
    written = await (await journalled(first, MemoryObjects(), "short")).read("ep", 1)
    first.close()
    again = open_database(url)
    journal = SqlJournal(again, MemoryObjects())
    assert await journal.read("ep", 1) == written
    with pytest.raises(Replaced):
        await journal.decide("ep", 1, Writer(run_id="run", slice_no=0, attempt_id="b"), 1, DECISION)
    await journal.decide("ep", 1, WRITER, 1, DECISION)
    again.close()


async def test_two_processes_of_one_database_obey_one_token(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/tiltyard.db"
    databases = [open_database(url) for _ in range(2)]
    one, other = (SqlJournal(database, MemoryObjects()) for database in databases)
    successor = WRITER.model_copy(update={"slice_no": 1})
    await one.take("ep", 1, WRITER)
    await other.take("ep", 1, successor)
    with pytest.raises(Replaced):
        await one.decide("ep", 1, WRITER, 0, DECISION)
    await one.decide("ep", 1, successor, 0, DECISION)
    await other.close("ep", 1)
    with pytest.raises(JournalClosed):
        await one.observe("ep", 1, successor, 0, (), (), 0)
    for database in databases:
        database.close()


async def test_a_refused_take_leaves_nothing_in_the_database(database: Database) -> None:
    journal = SqlJournal(database, MemoryObjects())
    with pytest.raises(Replaced):
        await journal.decide("ep", 1, WRITER, 0, DECISION)
    with database.reading() as connection:
        assert connection.execute(select(JournalTable)).all() == []


class IgnoresTheToken(MemoryJournal):
    """Whoever writes is let in."""

    async def decide(self, episode_id: str, generation: int, writer: Writer, turn: int, decision: Decision) -> None:
        await self.take(episode_id, generation, writer)
        await super().decide(episode_id, generation, writer, turn, decision)

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
        await self.take(episode_id, generation, writer)
        await super().observe(episode_id, generation, writer, turn, observations, faults, now_s)


class LetsAnyoneTake(MemoryJournal):
    """A slice that starts late takes the token from its successor."""

    async def take(self, episode_id: str, generation: int, writer: Writer) -> Writer | None:
        disguised = writer.model_copy(update={"slice_no": 10**6})
        before = await super().take(episode_id, generation, disguised)
        book = self._book(episode_id, generation)
        book.token = book.token.model_copy(update={"holder": writer})
        return before


class TellsAnOldHolder(MemoryJournal):
    """Whoever takes the token is told the first writer that ever held it, who may have missed what came since."""

    async def take(self, episode_id: str, generation: int, writer: Writer) -> Writer | None:
        first = getattr(self, "first", None)
        await super().take(episode_id, generation, writer)
        self.first = first or writer
        return first


class KeepsTheLastDecision(MemoryJournal):
    async def decide(self, episode_id: str, generation: int, writer: Writer, turn: int, decision: Decision) -> None:
        book = self._book(episode_id, generation)
        book.token.require(writer)
        kept = book.turns.pop(turn, None)
        await super().decide(episode_id, generation, writer, turn, decision)
        if kept is not None:
            book.turns[turn] = kept.model_copy(update={"decision": decision})


class ForgetsTheSeal(MemoryJournal):
    async def close(self, episode_id: str, generation: int) -> None:
        return None


class MixesGenerations(MemoryJournal):
    async def read(self, episode_id: str, generation: int) -> tuple[TurnRecord, ...]:
        return tuple(turn for book in self._books.values() for turn in book.turns.values())


class TakesTheFirstGeneration(MemoryJournal):
    async def newest(self, episode_id: str) -> int:
        return min((generation for known, generation in self._books if known == episode_id), default=0)


@pytest.mark.parametrize(
    "sabotaged",
    [
        IgnoresTheToken,
        LetsAnyoneTake,
        TellsAnOldHolder,
        KeepsTheLastDecision,
        ForgetsTheSeal,
        MixesGenerations,
        TakesTheFirstGeneration,
    ],
)
async def test_the_kit_catches(sabotaged: type[MemoryJournal]) -> None:
    caught = []
    for check in JOURNAL_CHECKS:
        try:
            await check(sabotaged())
        except Exception:
            caught.append(check.__name__)
    assert caught
