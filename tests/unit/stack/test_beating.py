"""A host's signs of life go on for as long as it works."""

import asyncio
from pathlib import Path

import pytest

from schemas.host import HostBeat
from schemas.start import Tuning
from tiltyard.errors import EnvironmentFailed
from tiltyard.testing.memory_records import MemoryRecords
from tiltyard.testing.memory_sandboxes import MemorySandboxes
from workers.hosts import beating
from workers.settings import Settings


class Failing(MemoryRecords):
    """Fails the beats before the ``good`` one, the first of all included; ``went`` is set by that."""

    def __init__(self, error: Exception, good: int) -> None:
        super().__init__()
        self.error, self.good, self.beats, self.went = error, good, 0, asyncio.Event()

    async def beat(self, beat: HostBeat) -> None:
        self.beats += 1
        if self.beats < self.good:
            raise self.error
        await super().beat(beat)
        self.went.set()


@pytest.mark.parametrize("error", [EnvironmentFailed("full"), ValueError("nonsense"), KeyError("slots")], ids=repr)
async def test_one_that_fails_is_told_of_and_the_next_one_comes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    settings = Settings(home=tmp_path, runtime=tmp_path, host_name="a", tuning=Tuning(outage_s=0.1))
    records = Failing(error, good=3)
    async with beating(records, MemorySandboxes(), settings):
        async with asyncio.timeout(30):
            await records.went.wait()
    assert [one.host for one in await records.hosts(settings.task_queue)] == ["a"]
    assert sum(str(error) in (one.exc_text or one.message) for one in caplog.records) == 2
