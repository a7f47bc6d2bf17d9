"""Episodes with a sandbox of the fake driver, with a gate before and behind each of its methods."""

from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from temporalio.client import Client

from schemas.contract import AnswerContract
from schemas.decision import Decision
from schemas.episode import EpisodeSpec
from schemas.evidence import Evidence
from schemas.sandbox import SandboxPlan
from schemas.start import Tuning
from schemas.task import Task
from schemas.view import View
from tests.workflow.arena import QUICK, Arena, arena, calls, tally_task
from tiltyard.ports import Sandboxes
from tiltyard.testing.gated_world import Gate
from tiltyard.testing.memory_policies import Act
from tiltyard.trace import unpack

ONE_TURN = Tuning(heartbeat_s=2, slice_s=0.5, slice_turns=1, patience_s=60)


UNSLICED = QUICK.model_copy(update={"slice_s": 30})


WHOLE = ["start\nline-0\n", "start\nline-0\nline-1\n", "start\nline-0\nline-1\nline-2\n"]


def box_task(**plan: object) -> Task:
    """Writes a file, adds to it by a command, and says so."""
    sandbox = SandboxPlan.model_validate({"files": {"notes.txt": "start\n"}, **plan})
    return tally_task(sandbox=sandbox, contracts=(AnswerContract(accept=({"done": True},)),))


async def writer(view: View) -> Decision:
    """Three commands, each of which leaves a line, then submits what it was shown last."""
    if view.turn < 3:
        return calls("shell", command=f"echo line-{view.turn} >> notes.txt; cat notes.txt")
    return Decision(submit={"done": True})


async def sleeper(view: View) -> Decision:
    if view.turn == 0:
        return calls("shell", command="echo one > one.txt")
    if view.turn == 1:
        return calls("shell", command="sleep 1000")
    return Decision(submit={"done": True})


async def evidence_of(place: Arena, spec: EpisodeSpec) -> Evidence:
    return unpack(await place.objects.get((await place.outcome(spec)).trace)).evidence


async def assert_no_sandbox(place: Arena) -> None:
    assert await place.sandboxes.sandboxes() == ()


def said(evidence: Evidence) -> list[Any]:
    """What each call was shown: its output, or the code of its error."""
    shown = [one for turn in evidence.turns for one in turn.observations or ()]
    return [one.content["stdout"] if isinstance(one.content, dict) else one.code for one in shown]


class GatedSandboxes:
    """A port of sandboxes with a gate before each of its methods, and one behind."""

    def __init__(self, sandboxes: Sandboxes) -> None:
        self._sandboxes = sandboxes
        self.gates: defaultdict[str, Gate] = defaultdict(Gate)

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._sandboxes, name)

        async def gated(*arguments: object) -> object:
            await self.gates[name].passing()
            answer = await method(*arguments)
            await self.gates[f"{name} answered"].passing()
            return answer

        return gated


@asynccontextmanager
async def boxes(client: Client, home: Path, **policies: Act) -> AsyncIterator[tuple[Arena, GatedSandboxes]]:
    async with arena(client, {"writer": writer, "sleeper": sleeper, **policies}, home) as place:
        gated = GatedSandboxes(place.sandboxes)
        async with place.worker(parts=replace(place.parts, sandboxes=gated)):
            yield place, gated
