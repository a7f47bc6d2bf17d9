"""Forks of episodes with commands, on real drivers: files are as they were, missing processes are told."""

from collections.abc import Sequence
from itertools import count

import pytest

from schemas.branch import BranchPoint
from schemas.decision import Call, Decision
from schemas.episode import End
from schemas.evidence import Evidence
from schemas.task import Task
from schemas.told import CommandRecord
from schemas.view import View
from tests.contract.sandboxes.abuse_yard import Yard
from tiltyard.policies.catalogue import open_script
from tiltyard.ports import Policy
from tiltyard.reopen.branching import Parent, branch_point
from tiltyard.reopen.changing import changed
from tiltyard.suite import shipped
from tiltyard.testing.memory_objects import MemoryObjects
from tiltyard.testing.memory_worlds import MemoryWorlds
from tiltyard.testing.rehearse import rehearse
from tiltyard.trace import Trace, trace_digest
from tiltyard.worlds.engine import Engine
from tiltyard.worlds.registry import worlds

REPAIR = shipped().task("code-repair/repair/1")
NUMBERS = count(1)
"""Names of sandboxes are used once."""

RANDOM = "head -c 8 /dev/urandom | od -An -tx8 | tee file"

SCRIPTS = ("reference", "hardcoder", "test_deleter", "nohup_writer")


class Acts:
    """One command a turn, then the answer. It thinks of what it is told."""

    def __init__(self, *commands: str) -> None:
        self._commands = commands

    async def act(self, view: View) -> Decision:
        if view.turn == len(self._commands):
            return Decision(submit={})
        return Decision(
            thought=view.notice, calls=(Call(tool="shell", arguments={"command": self._commands[view.turn]}),)
        )


class Stage:
    """Episodes of one engine and one object store, in the sandboxes of a yard."""

    def __init__(self, yard: Yard) -> None:
        self._yard = yard
        self._engine, self._objects = Engine(worlds(), MemoryWorlds()), MemoryObjects()
        self.name = ""

    async def play(
        self, policy: Policy, slice_turns: int | None, point: BranchPoint | None = None, task: Task = REPAIR
    ) -> Evidence:
        self.name = f"e-{next(NUMBERS)}"
        return await rehearse(
            *(task, policy, self._engine),
            name=self.name,
            sandboxes=self._yard.port,
            driver=self._yard.driver,
            objects=self._objects,
            point=point,
            slice_turns=slice_turns,
        )

    def point(self, parent: Evidence, turn: int, task: Task = REPAIR) -> BranchPoint:
        return branch_point(Parent.of(Trace(task, self._engine.describe(task.world), parent)), turn)


def digest(evidence: Evidence, task: Task = REPAIR) -> str:
    return trace_digest(task, evidence.facts, evidence.turns, evidence.ending.end, evidence.sandbox)


def stdout(evidence: Evidence, turn: int) -> object:
    (shown,) = evidence.turns[turn].observations or ()
    assert isinstance(shown.content, dict)
    return shown.content["stdout"]


def commands(evidence: Evidence) -> list[str]:
    """Operation ids of everything that the sandboxes were told to do, without whose they were."""
    assert evidence.sandbox is not None
    said = (*evidence.sandbox.earlier, evidence.sandbox.facts)
    return [one.op_id.split("/", 2)[2] for facts in said for one in facts.commands]


@pytest.mark.parametrize("script", SCRIPTS)
@pytest.mark.parametrize("slice_turns", [1, None], ids=["checkpoints", "no checkpoints"])
async def test_a_fork_goes_on_from_the_files_of_its_turn(yard: Yard, script: str, slice_turns: int | None) -> None:
    """With a checkpoint at every turn they are restored; without any, the commands are run again."""
    stage = Stage(yard)
    parent = await stage.play(open_script(script, REPAIR), slice_turns)
    last = len(parent.turns) - 1
    for turn in sorted({1, last // 2, last}):
        fork = await stage.play(open_script(script, REPAIR), None, stage.point(parent, turn))
        assert digest(fork) == digest(parent), f"forked before turn {turn}"
        assert commands(fork) == commands(parent), "each command of the parent is told once"
        assert {call.op_id.split("/")[0] for call in facts_of(fork)} == {stage.name}


def facts_of(evidence: Evidence) -> Sequence[CommandRecord]:
    assert evidence.sandbox is not None
    return [one for facts in (*evidence.sandbox.earlier, evidence.sandbox.facts) for one in facts.commands]


async def test_a_process_that_ran_is_told_to_be_missing(yard: Yard) -> None:
    stage = Stage(yard)
    parent = await stage.play(Acts("sleep 4321 >/dev/null 2>&1 & echo on", "echo two"), 1)
    fork = await stage.play(Acts("", "", "true"), None, stage.point(parent, 2))
    assert fork.not_restored == ("a process of turn 0: sleep 4321",)
    told = [turn.decision.thought for turn in fork.turns]
    assert told[:2] == ["", ""]
    assert "It lacks a process of turn 0: sleep 4321." in told[2], "the policy is told too"
    assert told[3] == ""
    for turn, missing in ((2, fork.not_restored), (3, ())):
        again = await stage.play(Acts("", "", ""), None, stage.point(fork, turn))
        assert again.not_restored == missing, "after that turn the policy knew it"


async def test_a_process_whose_command_is_run_again_is_there(yard: Yard) -> None:
    stage = Stage(yard)
    left = "(while sleep 0.02; do date +%s%N > beat; done) >/dev/null 2>&1 & echo on"
    parent = await stage.play(Acts(left, "echo two"), None)
    point = stage.point(parent, 2)
    assert point.lost == ()
    waits = "for n in $(seq 500); do [ -e beat ] && break; sleep 0.02; done; test -e beat && echo alive"
    fork = await stage.play(Acts("", "", waits), None, point)
    assert stdout(fork, 2) == "alive\n"


async def test_files_that_come_out_otherwise_end_the_fork(yard: Yard) -> None:
    """A command that shows something else has not done what it did, and nobody goes on from what it left."""
    stage = Stage(yard)
    parent = await stage.play(Acts(RANDOM, "echo two"), None)
    fork = await stage.play(Acts("", ""), None, stage.point(parent, 1))
    assert fork.ending.end is End.ENVIRONMENT_ERROR
    assert "the files of turn 0 cannot be brought back" in fork.ending.reason


async def test_what_was_kept_is_not_run_again(yard: Yard) -> None:
    """The same command, with a checkpoint after it: the file is that of the parent."""
    stage = Stage(yard)
    parent = await stage.play(Acts(RANDOM, "echo two"), 1)
    fork = await stage.play(Acts("", "cat file"), None, stage.point(parent, 1))
    assert stdout(fork, 0) == stdout(fork, 1) != ""


@pytest.mark.parametrize("limits", [(65_536, 256), (256, 65_536), (300, 257)])
async def test_another_limit_of_what_is_shown_does_not_matter(yard: Yard, limits: tuple[int, int]) -> None:
    stage = Stage(yard)
    before, after = (changed(REPAIR, limits={"observation_bytes": size}) for size in limits)
    parent = await stage.play(Acts("seq 1 2000 | tee file", "cat file"), None, task=before)
    fork = await stage.play(Acts("", "cat file"), None, stage.point(parent, 1, before), task=after)
    assert fork.ending.end is End.SUBMITTED, fork.ending.reason
