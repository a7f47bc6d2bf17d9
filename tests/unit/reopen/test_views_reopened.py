"""Views with summaries are the same in slices, forks and replays: each decision here says what it was shown."""

import random

import pytest

from schemas.base import digest_of
from schemas.branch import BranchPoint
from schemas.decision import Decision
from schemas.evidence import Evidence
from schemas.recording import Recording
from schemas.task import Limits, Task
from schemas.view import View
from tests.unit.episode.summarised import limited
from tests.workflow.arena import calls
from tiltyard.ports import Policy
from tiltyard.reopen.branching import Parent, branch_point
from tiltyard.reopen.recording import recording_of
from tiltyard.testing.memory_objects import MemoryObjects
from tiltyard.testing.memory_worlds import MemoryWorlds
from tiltyard.testing.rehearse import rehearse
from tiltyard.testing.tally_world import TALLY
from tiltyard.trace import Trace, trace_digest
from tiltyard.worlds.engine import Engine

TURNS = 100
TASK = limited(limits=Limits(turns=TURNS, tool_calls=TURNS), answers=("yes",))
DICE = 5


class Mirror:
    """Its thought is the digest of its whole view. ``shows`` may spoil that."""

    def __init__(self) -> None:
        self.summaries = set[int]()

    async def act(self, view: View) -> Decision:
        self.summaries.add(view.summary.turns if view.summary is not None else 0)
        return _decided(view).model_copy(update={"thought": digest_of(self.shows(view)), "memo": view.turn})

    def shows(self, view: View) -> View:
        return view


class Slicewise(Mirror):
    """The sabotage: what it is shown depends on how often it was made anew, as of a rule that looks at slices."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0

    def shows(self, view: View) -> View:
        self.asked += 1
        return view.model_copy(update={"seed": view.turn - self.asked})


def _decided(view: View) -> Decision:
    if view.turn == TURNS - 1:
        return Decision(submit={"done": True})
    if view.turn == TURNS // 2:
        return Decision(ask="May I?")
    if view.turn % 3:
        return calls("read", name="apples" if view.turn % 2 else "pears")
    return calls("add", name="apples", amount=view.turn, operation_id=f"op-{view.turn}")


class Yard:
    def __init__(self) -> None:
        self.engine, self.objects, self.played = Engine({"tally": TALLY}, MemoryWorlds()), MemoryObjects(), 0

    async def play(
        self, policy: Policy | Recording, point: BranchPoint | None = None, slice_turns: int | None = None
    ) -> Evidence:
        self.played += 1
        name = f"e-{self.played}"
        return await rehearse(
            *(TASK, policy, self.engine),
            seed=3,
            name=name,
            objects=self.objects,
            point=point,
            slice_turns=slice_turns,
        )

    def trace(self, evidence: Evidence) -> Trace:
        return Trace(TASK, self.engine.describe("tally"), evidence)


def digest(evidence: Evidence, task: Task = TASK) -> str:
    return trace_digest(task, evidence.facts, evidence.turns, evidence.ending.end)


@pytest.mark.parametrize("slice_turns", [1, 7, 50])
async def test_views_do_not_depend_on_slices(slice_turns: int) -> None:
    yard, mirror = Yard(), Mirror()
    whole = digest(await yard.play(mirror))
    assert len(mirror.summaries) > 3
    assert digest(await yard.play(Mirror(), slice_turns=slice_turns)) == whole


async def test_a_fork_is_shown_what_its_parent_was_shown() -> None:
    yard, dice = Yard(), random.Random(DICE)
    parent = await yard.play(Mirror())
    for turn in dice.sample(range(TURNS), 4):
        point = branch_point(Parent.of(yard.trace(parent)), turn)
        assert digest(await yard.play(Mirror(), point, slice_turns=9)) == digest(parent), f"forked at turn {turn}"


async def test_a_fork_of_a_policy_that_is_shown_something_else_is_caught() -> None:
    yard = Yard()
    parent = await yard.play(Slicewise())
    point = branch_point(Parent.of(yard.trace(parent)), TURNS // 2)
    assert digest(await yard.play(Slicewise(), point)) != digest(parent)


async def test_a_replay_comes_to_the_same() -> None:
    yard = Yard()
    parent = await yard.play(Mirror())
    assert digest(await yard.play(recording_of(yard.trace(parent)))) == digest(parent)
