"""Pins checked: each is played in this process as references are, and must come to what it expects."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count

from schemas.episode import EpisodeResult, Validity
from schemas.pin import Pin
from schemas.slice import GradeRequest
from schemas.task import Task
from schemas.tool import ToolSpec
from tiltyard.episode.grading import Examiner
from tiltyard.errors import BadInput, TiltyardError
from tiltyard.ports import Sandboxes
from tiltyard.reopen.pinning import Broken, case_of, differences, first_turn_that_differs, recording_in
from tiltyard.sandbox.tools import SANDBOX_TOOLS
from tiltyard.testing.memory_objects import MemoryObjects
from tiltyard.testing.memory_records import MemoryRecords
from tiltyard.testing.rehearse import rehearse
from tiltyard.trace import Trace, pack
from tiltyard.worlds.engine import Engine

PLACE = ("rehearsal", "rehearsal")
"""Cluster and namespace of whoever plays pins."""


@dataclass(frozen=True)
class Stage:
    """Where pins are played: an engine of the worlds, and the sandboxes for those that run commands.

    ``numbers`` tell plays apart: a sandbox is never made anew under the name of one that is gone.
    """

    engine: Engine
    sandboxes: Sandboxes
    numbers: Iterator[int] = field(default_factory=count)


@dataclass(frozen=True)
class Held:
    """What playing a pin showed. ``broken`` says in what it is not as expected, and ``since`` at which turn it
    first went another way; ``unplayed`` says why it could not be played here."""

    pin: Pin
    now: Pin | None = None
    broken: tuple[Broken, ...] = ()
    since: str = ""
    unplayed: str = ""

    @property
    def holds(self) -> bool:
        """Whether it was played and came to what it expects."""
        return not self.broken and not self.unplayed


async def check_pin(pin: Pin, stage: Stage) -> Held:
    """Play a pin and compare. An environment that fails is told as what it is, and is no difference."""
    try:
        if why := await _not_here(pin, stage):
            return Held(pin, unplayed=why)
        now = await play(pin, stage)
    except BadInput as error:
        return Held(pin, broken=(Broken(f"task: it cannot be played any more: {error}"),))
    except TiltyardError as error:
        return Held(pin, unplayed=str(error))
    if now.expect.validity is Validity.ENVIRONMENT:
        return Held(pin, unplayed=f"its environment failed: {now.ending.reason}")
    return Held(pin, now, differences(pin, now), first_turn_that_differs(pin, now))


async def _not_here(pin: Pin, stage: Stage) -> str:
    """Why this machine has no sandbox for the pin; empty where it has one, or where it needs none."""
    if pin.sandbox is None:
        return ""
    offer = await stage.sandboxes.offer(pin.sandbox)
    return "" if offer.available else f"it needs {pin.sandbox}, which does not work here: {offer.problem}"


async def play(pin: Pin, stage: Stage) -> Pin:
    """What the pin's decisions come to now, as a pin of the same name. Raises what an episode cannot survive."""
    objects = MemoryObjects()
    evidence = await rehearse(
        pin.task,
        recording_in(pin),
        stage.engine,
        seed=pin.seed,
        name=f"pin/{next(stage.numbers)}/{pin.name}",
        sandboxes=stage.sandboxes,
        driver=pin.sandbox or "bubblewrap",
        objects=objects,
    )
    trace = Trace(pin.task, _tools(pin.task, stage.engine), evidence)
    return case_of(await _graded(trace, stage, objects), trace, pin.name)


def _tools(task: Task, engine: Engine) -> tuple[ToolSpec, ...]:
    tools = engine.describe(task.world)
    return tools if task.sandbox is None else (*tools, *SANDBOX_TOOLS.values())


async def _graded(trace: Trace, stage: Stage, objects: MemoryObjects) -> EpisodeResult:
    """Graded as every episode is, its examinations held."""
    records, evidence = MemoryRecords(), trace.evidence
    examiner = Examiner(objects, records, stage.sandboxes, *PLACE)
    request = GradeRequest(spec=evidence.spec, ending=evidence.ending, trace=await objects.put(pack(trace)))
    await examiner.grade(request, evidence.spec.episode_id, attempt=1)
    result = await records.result(evidence.spec.episode_id)
    assert result is not None, "an examiner records an outcome"
    return result
