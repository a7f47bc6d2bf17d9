"""What a policy left of processes is in the drain's report, and changes nothing of what happened."""

from tiltyard.episode.grading import examine
from tiltyard.policies.catalogue import open_script
from tiltyard.ports import NONE_ENDED, Ended
from tiltyard.suite import shipped
from tiltyard.testing.memory_worlds import MemoryWorlds
from tiltyard.testing.rehearse import rehearse
from tiltyard.worlds.engine import Engine
from tiltyard.worlds.registry import worlds

TASK = shipped().task("replacement/reply-lost/1")


async def test_processes_are_reported_and_are_not_in_the_digest() -> None:
    engine = Engine(worlds(), MemoryWorlds())
    results = []
    for ended in (NONE_ENDED, Ended(found=3, killed=2)):
        evidence = await rehearse(TASK, open_script("reconcile", TASK), engine, ended=ended)
        results.append(examine(TASK, evidence, engine.describe(TASK.world)))
    tidy, untidy = results
    assert (tidy.drain.processes_found, tidy.drain.ended_by_kill) == (0, 0)
    assert (untidy.drain.processes_found, untidy.drain.ended_by_kill) == (3, 2)
    assert untidy.digests == tidy.digests
    assert untidy.score == tidy.score
