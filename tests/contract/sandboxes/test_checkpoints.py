"""Checkpoints of true sandboxes: what has changed is seen however it was written, and a lost sandbox comes back."""

from datetime import timedelta

import pytest

from schemas.contract import AnswerContract
from schemas.decision import Call, Decision
from schemas.episode import End
from schemas.sandbox import SandboxPlan
from schemas.task import Limits, Reference, Step, Task
from schemas.view import View
from tests.contract.sandboxes.abuse_yard import Yard, python
from tiltyard.episode.delivery import Reconciler
from tiltyard.episode.sandboxing import Checkpoints
from tiltyard.sandbox.files import digests, start_of
from tiltyard.sandbox.keeping import fetch
from tiltyard.testing.local_world import LocalWorld
from tiltyard.testing.memory_objects import MemoryObjects
from tiltyard.testing.memory_worlds import MemoryWorlds
from tiltyard.testing.rehearse import rehearse
from tiltyard.testing.tally_world import TALLY
from tiltyard.worlds.engine import Engine

STORES = {
    "a write with its time set back": (
        "about = os.stat('file')\n"
        "with open('file', 'r+b') as file: file.write(b'B')\n"
        "os.utime('file', ns=(about.st_atime_ns, about.st_mtime_ns))"
    ),
    "a store through a mapping that was read before": (
        "with open('file', 'r+b') as file, mmap.mmap(file.fileno(), 0) as mapped:\n"
        "    mapped[0]\n"
        "    mapped[0] = ord('B')"
    ),
    "another file of its size and time in its place": (
        "about = os.stat('file')\n"
        "with open('other', 'wb') as file: file.write(b'B' + b'a' * 8191)\n"
        "os.utime('other', ns=(about.st_atime_ns, about.st_mtime_ns))\n"
        "os.rename('other', 'file')"
    ),
}


@pytest.mark.parametrize("store", STORES.values(), ids=STORES)
async def test_a_change_that_hides_is_copied(yard: Yard, store: str) -> None:
    async with yard.sandbox() as box:
        await box.put("file", b"a" * 8192)
        await box.put("same", b"same")
        known = digests(await box.snapshot())
        done = await python(box, f"import mmap, os\n{store}")
        assert done.exit_code == 0, done
        copied = {entry.path: entry.content for entry in (await box.snapshot(known)).entries}
        assert copied == {"file": b"B" + b"a" * 8191, "same": None}


async def test_a_lost_sandbox_comes_back_from_what_each_turn_has_added(yard: Yard) -> None:
    plan = SandboxPlan(files={"README": "read me\n"})
    objects, world = MemoryObjects(), LocalWorld(Engine({"tally": TALLY}, MemoryWorlds()))
    checkpoints = Checkpoints(yard.port, Reconciler(world, timedelta(seconds=60)), objects)
    async with yard.sandbox(start=start_of(plan)) as box:
        await box.out("mkdir src; head -c 1000000 /dev/urandom > src/large; echo one > src/one; ln -s src/one link")
        name, _ = await checkpoints.save(box.ref, plan, "")
        before = sum(map(len, objects.contents.values()))
        assert before > 1_000_000
        await box.out("echo two > src/two; rm src/one; echo more >> README")
        name, _ = await checkpoints.save(box.ref, plan, name)
        assert sum(map(len, objects.contents.values())) < before + 3_000, "what had not changed was stored again"
        left = await box.snapshot()
        later = box.again(start=await fetch(objects, name, start_of(plan)))
        await later.provision()
        assert await later.snapshot() == left
        again, _ = await checkpoints.save(later.ref, plan, name)
        assert again == name, "what was brought back counts as changed"


async def test_a_command_past_the_wall_time_leaves_the_policy_its_last_turn(yard: Yard) -> None:
    notices: list[str] = []

    class Sleeper:
        async def act(self, view: View) -> Decision:
            notices.append(view.notice)
            sleep = Call(tool="shell", arguments={"command": "(sleep 60 &); echo begun; sleep 60"})
            return Decision(submit={"done": True}) if view.notice else Decision(calls=(sleep,))

    task = Task(
        id="tally/sleep/1",
        world="tally",
        instruction="Sleep.",
        limits=Limits(wall_s=3),
        contracts=(AnswerContract(accept=({"done": True},)),),
        references=(Reference(steps=(Step(submit={"done": True}),)),),
        sandbox=SandboxPlan(),
    )
    evidence = await rehearse(
        *(task, Sleeper(), Engine({"tally": TALLY}, MemoryWorlds())),
        name=f"sleeper-{yard.driver}",
        sandboxes=yard.port,
        driver=yard.driver,
    )
    assert evidence.ending.end is End.SUBMITTED, evidence.ending
    assert ["last turn" in notice for notice in notices] == [False, True]
    assert evidence.turns[0].observations is not None
    shown = evidence.turns[0].observations[0].content
    assert isinstance(shown, dict)
    assert (shown["stdout"], shown["timed_out"]) == ("begun\n", True)
    assert shown["cut_short"] == "the episode's wall time ends"
    assert evidence.sandbox is not None
    assert evidence.sandbox.facts.drain.found == 0, "all that the command had started was ended with it"
