"""What is done again and again beside the work goes on, whatever befalls it once."""

import asyncio

import pytest

from tiltyard.errors import EnvironmentFailed
from workers.versions import TemporalVersions, keeping_current


class Failing(TemporalVersions):
    """Becomes the current version at once; of the looks after that the first two fail."""

    def __init__(self, error: Exception) -> None:
        self.error, self.looks, self.went = error, 0, asyncio.Event()

    async def become_current(self) -> bool:
        self.looks += 1
        if self.looks in (2, 3):
            raise self.error
        if self.looks > 3:
            self.went.set()
        return True


@pytest.mark.parametrize("error", [EnvironmentFailed("away"), ValueError("nonsense"), KeyError("build")], ids=repr)
async def test_a_look_at_versions_that_fails_is_told_of_and_the_next_one_comes(
    caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    versions = Failing(error)
    async with keeping_current(versions, every_s=0.01):
        async with asyncio.timeout(10):
            await versions.went.wait()
    assert sum(str(error) in (one.exc_text or one.message) for one in caplog.records) == 2


async def test_a_worker_whose_version_cannot_become_the_current_one_does_not_begin() -> None:
    versions = Failing(EnvironmentFailed("away"))
    versions.looks = 1
    with pytest.raises(EnvironmentFailed):
        async with keeping_current(versions, every_s=0.01):
            raise AssertionError
