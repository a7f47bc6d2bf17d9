"""Every driver of records passes the kit, and the kit notices one that lets a later outcome win."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.stores.database import Database, open_database
from infra.stores.records import SqlRecords
from schemas.episode import EpisodeResult
from tiltyard.testing.memory_records import MemoryRecords
from tiltyard.testing.records_kit import (
    RECORDS_CHECKS,
    RecordsCheck,
    every_planned_trial_stays_in_the_denominator,
)


@pytest.mark.parametrize("check", RECORDS_CHECKS, ids=lambda check: check.__name__)
async def test_memory_records(check: RecordsCheck) -> None:
    await check(MemoryRecords())


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    opened = open_database(f"sqlite:///{tmp_path}/tiltyard.db")
    yield opened
    opened.close()


@pytest.mark.parametrize("check", RECORDS_CHECKS, ids=lambda check: check.__name__)
async def test_sql_records(check: RecordsCheck, database: Database) -> None:
    await check(SqlRecords(database))


async def test_records_outlive_the_process_that_wrote_them(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/tiltyard.db"
    first = open_database(url)
    await every_planned_trial_stays_in_the_denominator(SqlRecords(first))
    first.close()
    again = open_database(url)
    rows = await SqlRecords(again).episodes(limit=1000)
    again.close()
    assert (len(rows), sum(result is None for _, result in rows)) == (60, 30)


class TheLastOutcomeWins(MemoryRecords):
    async def record(self, result: EpisodeResult) -> EpisodeResult:
        self._results[result.episode_id] = result
        return result


async def test_the_kit_catches_a_later_outcome_that_wins() -> None:
    for check in RECORDS_CHECKS:
        try:
            await check(TheLastOutcomeWins())
        except AssertionError:
            return
    pytest.fail("the kit let it pass")
