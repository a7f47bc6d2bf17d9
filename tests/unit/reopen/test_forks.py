"""A fork with the same policy and seed does what its parent did, from whichever turn, whatever that was."""

import random
from collections.abc import Iterator

import pytest

from schemas.branch import BranchPoint
from schemas.evidence import Evidence
from schemas.task import Task
from tiltyard.episode.grading import examine
from tiltyard.policies.catalogue import SCRIPTS, open_script
from tiltyard.reopen.branching import Parent, branch_point
from tiltyard.suite import shipped
from tiltyard.testing.memory_objects import MemoryObjects
from tiltyard.testing.memory_worlds import MemoryWorlds
from tiltyard.testing.rehearse import rehearse
from tiltyard.trace import Trace, trace_digest
from tiltyard.worlds.engine import Engine
from tiltyard.worlds.registry import worlds

SUITE = shipped()
DICE = 7


def trials() -> Iterator[tuple[Task, str]]:
    """Every shipped script on one task of every family without commands."""
    for task in {task.family: task for task in SUITE.match(["*"])}.values():
        if task.sandbox is None:
            yield from ((task, name) for name, script in SCRIPTS.items() if not script.needs_sandbox)


class Yard:
    """One engine and one object store, in which episodes are played and branched."""

    def __init__(self) -> None:
        self.engine = Engine(worlds(), MemoryWorlds())
        self.objects = MemoryObjects()
        self.played = 0

    async def play(
        self, task: Task, policy: str, point: BranchPoint | None = None, slice_turns: int = 2
    ) -> Evidence:
        self.played += 1
        return await rehearse(
            *(task, open_script(policy, task), self.engine),
            seed=3,
            name=f"e-{self.played}",
            objects=self.objects,
            point=point,
            slice_turns=slice_turns,
        )

    def point(self, task: Task, evidence: Evidence, turn: int) -> BranchPoint:
        return branch_point(Parent.of(self.trace(task, evidence)), turn)

    def trace(self, task: Task, evidence: Evidence) -> Trace:
        return Trace(task, self.engine.describe(task.world), evidence)


def digest(task: Task, evidence: Evidence) -> str:
    return trace_digest(task, evidence.facts, evidence.turns, evidence.ending.end, evidence.sandbox)


@pytest.mark.parametrize(("task", "policy"), list(trials()), ids=lambda value: getattr(value, "id", value))
async def test_a_fork_at_any_turn_goes_on_as_its_parent_did(task: Task, policy: str) -> None:
    yard, dice = Yard(), random.Random(DICE)
    parent = await yard.play(task, policy)
    tools = yard.engine.describe(task.world)
    for turn in sorted(dice.sample(range(len(parent.turns)), min(3, len(parent.turns)))):
        fork = await yard.play(task, policy, yard.point(task, parent, turn), slice_turns=3)
        assert digest(task, fork) == digest(task, parent), f"forked at turn {turn}"
        assert fork.not_restored == ()
        old, new = (examine(task, evidence, tools) for evidence in (parent, fork))
        assert (new.score, new.contracts, new.safety, new.counts) == (
            old.score,
            old.contracts,
            old.safety,
            old.counts,
        )
