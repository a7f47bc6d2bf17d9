"""Planning replays: as many as are wanted, of what is stored once."""

import pytest

from schemas.recording import RECORDED
from schemas.task import Task
from tests.unit.reopen.replays import play
from tiltyard.episode.tasks import TaskShelf
from tiltyard.policies.catalogue import open_script
from tiltyard.reopen.replaying import Replaying
from tiltyard.suite import shipped
from tiltyard.testing.memory_objects import MemoryObjects
from tiltyard.testing.memory_records import MemoryRecords
from tiltyard.trace import pack

TASK = shipped().task("replacement/approved/1")
OTHER = TASK.model_copy(update={"instruction": "Other words."})


class Counting(MemoryObjects):
    """Counts what is stored."""

    def __init__(self) -> None:
        super().__init__()
        self.puts = 0

    async def put(self, data: bytes) -> str:
        self.puts += 1
        return await super().put(data)


@pytest.mark.parametrize(("task", "stored"), [(None, 1), (OTHER, 2)], ids=["the recording", "a task besides"])
async def test_what_all_replays_of_an_episode_share_is_stored_once(task: Task | None, stored: int) -> None:
    objects, records = Counting(), MemoryRecords()
    played = await play(TASK, open_script("reference", TASK))
    spec = played.trace.evidence.spec
    assert await TaskShelf(objects).store(TASK) == spec.task_digest
    await records.plan([spec])
    await records.record(played.result.model_copy(update={"trace": await objects.put(pack(played.trace))}))
    replaying = Replaying(records, objects)
    original, before = await replaying.original(spec.episode_id), objects.puts
    planned = await replaying.plan_all(original, ["r-1", "r-2", "r-3"], task=task)
    assert objects.puts - before == stored
    assert [one.episode_id for one in planned] == ["r-1", "r-2", "r-3"]
    assert {one.policy.target for one in planned} == {RECORDED}
    alone = await replaying.plan(original, "r-2", task=task)
    assert planned[1] == alone, "each is planned as if it were the only one"
