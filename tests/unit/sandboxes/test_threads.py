"""Work in a thread: whoever is cancelled does not leave it behind."""

import asyncio
import threading

import pytest

from infra.sandboxes.threads import in_thread


async def test_it_gives_what_the_work_gives() -> None:
    assert await in_thread(lambda: 7) == 7
    with pytest.raises(ZeroDivisionError):
        await in_thread(lambda: 1 // 0)


@pytest.mark.parametrize("fails", [False, True])
async def test_who_is_cancelled_waits_for_its_end_however_often(fails: bool) -> None:
    begun, enough, ended = threading.Event(), threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        assert enough.wait(30)
        ended.set()
        if fails:
            raise OSError("it failed")

    task = asyncio.create_task(in_thread(work))
    await asyncio.to_thread(begun.wait, 30)
    for _ in range(3):
        task.cancel()
        for _ in range(5):
            await asyncio.sleep(0)
    assert not task.done(), "the work goes on, and nobody is there"
    enough.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended.is_set()
