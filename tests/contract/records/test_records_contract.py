"""Every driver of records passes the kit, and the kit notices one that lets a later outcome win."""

import pytest

from schemas.episode import EpisodeResult
from tiltyard.testing.memory_records import MemoryRecords
from tiltyard.testing.records_kit import RECORDS_CHECKS, RecordsCheck


@pytest.mark.parametrize("check", RECORDS_CHECKS, ids=lambda check: check.__name__)
async def test_memory_records(check: RecordsCheck) -> None:
    await check(MemoryRecords())


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
