"""Slices go on from what their worker knows of the journal, exactly as if each had read it."""

import asyncio
import pickle
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import timedelta
from itertools import count, zip_longest

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.base import JsonValue
from schemas.decision import Call, Decision
from schemas.episode import EpisodeSpec, PolicySpec
from schemas.journal import TurnRecord, Writer
from schemas.observation import Observation
from schemas.slice import CallRef, LeaseRef, SliceReport, SliceRequest
from schemas.task import Limits, Task
from schemas.view import View
from tests.unit.episode.crashing import Crashed, Crashing, Fuse
from tests.unit.episode.summarised import LEAST, limited
from tests.workflow.arena import calls, lease_request, tally_task
from tiltyard.episode.delivery import Reconciler
from tiltyard.episode.gateway import Gateway
from tiltyard.episode.known import Key, Known, KnownJournals, known_of
from tiltyard.episode.sandboxing import Checkpoints
from tiltyard.episode.slices import SliceRunner
from tiltyard.episode.tasks import TaskShelf
from tiltyard.errors import Replaced
from tiltyard.testing.local_world import LocalWorld
from tiltyard.testing.memory_journal import MemoryJournal
from tiltyard.testing.memory_objects import MemoryObjects
from tiltyard.testing.memory_policies import MemoryPolicies
from tiltyard.testing.memory_sandboxes import MemorySandboxes
from tiltyard.testing.memory_worlds import MemoryWorlds
from tiltyard.testing.tally_world import TALLY
from tiltyard.worlds.engine import Engine

TURNS = 12
WRITER = Writer(run_id="r", slice_no=0, attempt_id="a")

ASKS = 5
"""The turn in which the episode waits for an answer, in a slice of its own."""


class CountedJournal(MemoryJournal):
    """``reads`` counts how often all turns were read."""

    reads = 0

    async def read(self, episode_id: str, generation: int) -> tuple[TurnRecord, ...]:
        self.reads += 1
        return await super().read(episode_id, generation)


class Trusting(KnownJournals):
    """The sabotage: goes on from what it has, whoever had the token since."""

    def taken(self, key: Key, before: Writer | None) -> Known | None:
        kept = self._kept.get(key)
        return super().taken(key, kept[0] if kept is not None else before)


def counting(view: View) -> Decision:
    """Adds a number that says how much it was shown; so a turn that is forgotten shows in the world."""
    if view.turn >= TURNS:
        return Decision(submit={"seen": len(view.transcript)})
    if view.turn == ASKS:
        return Decision(ask="May I?")
    shown = sum(len(turn.observations) for turn in view.transcript)
    return calls("add", name="apples", amount=1 + shown, operation_id=f"op-{view.turn}")


class Yard:
    """One episode, several workers, and one journal."""

    def __init__(self, task: Task, known: Callable[[], KnownJournals] = KnownJournals, workers: int = 3) -> None:
        self.task, self.journal, self.objects = task, CountedJournal(), MemoryObjects()
        self.fuse, self.number, self.attempts = Fuse(), 0, count()
        engine = Engine({"tally": TALLY}, MemoryWorlds())
        self.world = LocalWorld(engine)
        self.shelf = TaskShelf(self.objects)
        self.gates: list[asyncio.Event] = []
        self.asked: list[int] = []
        self.waited: CallRef | None = None
        self.runners = [self._runner(known()) for _ in range(workers)]

    def _runner(self, known: KnownJournals) -> SliceRunner:
        reconciler = Reconciler(self.world, timedelta(seconds=5))
        sandboxes = MemorySandboxes()
        return SliceRunner(
            Gateway(self.world, reconciler, sandboxes),
            Checkpoints(sandboxes, reconciler, self.objects),
            Crashing(self.journal, self.fuse),
            MemoryPolicies({"counting": self._act}),
            self.shelf.load,
            known=known,
        )

    async def _act(self, view: View) -> Decision:
        self.asked.append(view.turn)
        if self.gates:
            await self.gates.pop().wait()
        return counting(view)

    async def begin(self) -> None:
        lease = await self.world.lease(lease_request("e-1"))
        self.lease = LeaseRef(namespace=lease.namespace, generation=lease.generation)
        self.spec = EpisodeSpec(
            episode_id="e-1",
            task_id=self.task.id,
            task_digest=await self.shelf.store(self.task),
            world="tally",
            policy=PolicySpec(target="counting"),
            limits=self.task.limits,
        )

    def request(self, turns: int) -> SliceRequest:
        return SliceRequest(
            spec=self.spec,
            lease=self.lease,
            run_id="run",
            slice_no=self.number,
            seconds=60,
            max_turns=turns,
            wall_left_s=600,
            answered=self.waited is not None,
            answer="yes",
            waited=self.waited,
        )

    async def attempt(self, worker: int, turns: int) -> SliceReport:
        return await self.runners[worker].run(self.request(turns), f"attempt-{next(self.attempts)}")

    async def slice(self, worker: int, turns: int, crash: int = -1) -> SliceReport | None:
        """One slice to its end; ``None`` when its worker died at the step ``crash`` of the journal."""
        self.fuse.at = self.fuse.steps + crash if crash >= 0 else -1
        try:
            report = await self.attempt(worker, turns)
        except Crashed:
            return None
        self.number += 1
        self.waited = report.waiting_for
        return report

    async def overtaken(self, worker: int, other: int, turns: int) -> SliceReport | None:
        """``other`` runs the slice that ``worker`` is in the middle of; that one finds out when it goes on."""
        gate = asyncio.Event()
        self.fuse.at, self.gates = -1, [gate]
        slow = asyncio.create_task(self.attempt(worker, turns))
        await asyncio.sleep(0)
        while self.gates and not slow.done():
            await asyncio.sleep(0)
        self.gates = []  # it may have ended without asking the policy
        report = await self.slice(other, turns)
        gate.set()
        with suppress(Replaced):
            await slow
        return report

    async def turns(self) -> tuple[TurnRecord, ...]:
        return await self.journal.read("e-1", self.lease.generation)


Step = tuple[int, int, int, int | None]
"""A slice: its worker, its turns, the step at which it crashes (-1: none), and the worker that overtakes it."""


async def played(task: Task, steps: list[Step]) -> list[TurnRecord]:
    """All turns of an episode that is played in these slices, and then in one."""
    yard = Yard(task)
    await yard.begin()
    remaining: Iterator[Step] = iter(steps)
    report: SliceReport | None = None
    while report is None or report.reason != "end":
        worker, turns, crash, other = next(remaining, (0, TURNS + 1, -1, None))
        if other is not None:
            report = await yard.overtaken(worker, other, turns)
        else:
            report = await yard.slice(worker, turns, crash)
    return list(await yard.turns())


WORKER = st.integers(0, 2)
STEP = st.tuples(WORKER, st.integers(1, 4), st.integers(-1, 9), st.none() | WORKER)


def short(view: bool) -> Task:
    limits = Limits(turns=100, tool_calls=100)
    return limited(LEAST, limits=limits) if view else tally_task(limits=limits)


@settings(deadline=None, max_examples=80)
@given(st.lists(STEP, max_size=10), st.booleans())
def test_whoever_runs_a_slice_and_however_it_ends_the_turns_are_the_same(steps: list[Step], view: bool) -> None:
    undisturbed = asyncio.run(played(short(view), []))
    assert len(undisturbed) == TURNS + 1
    assert asyncio.run(played(short(view), steps)) == undisturbed


@pytest.mark.parametrize(("known", "asked_again"), [(KnownJournals, []), (Trusting, [2, 3])])
async def test_a_worker_that_trusts_what_it_knows_is_caught(
    known: Callable[[], KnownJournals], asked_again: list[int]
) -> None:
    """The first worker's second slice goes on from its first, although another one has had the token since: it asks
    the policy for turns that are decided."""
    yard = Yard(short(False), known)
    await yard.begin()
    for worker in (0, 1, 0):
        await yard.slice(worker, 2)
    assert sorted(turn for turn in set(yard.asked) if yard.asked.count(turn) > 1) == asked_again


async def test_one_worker_reads_the_journal_once() -> None:
    yard = Yard(short(False), workers=1)
    await yard.begin()
    while (report := await yard.slice(0, 1)) is None or report.reason != "end":
        pass
    assert (yard.number, yard.journal.reads) == (TURNS + 1, 1)


@pytest.mark.parametrize("case", ["another worker", "a crash", "an attempt that was replaced"])
async def test_after_a_lost_token_the_journal_is_read_again(case: str) -> None:
    yard = Yard(short(False))
    await yard.begin()
    await yard.slice(0, 2)
    if case == "another worker":
        await yard.slice(1, 2)
    elif case == "a crash":
        assert await yard.slice(0, 2, crash=3) is None
    else:
        await yard.overtaken(0, 1, 2)
    reads = yard.journal.reads
    await yard.slice(0, 2)
    assert yard.journal.reads == reads + 1
    await yard.slice(0, 2)
    assert yard.journal.reads == reads + 1


@settings(deadline=None, max_examples=40)
@given(st.lists(st.tuples(WORKER, st.integers(1, 4)), max_size=8))
def test_what_is_kept_is_what_the_journal_says(slices: list[tuple[int, int]]) -> None:
    async def check() -> None:
        yard = Yard(short(True), workers=3)
        await yard.begin()
        for worker, turns in slices:
            report = await yard.slice(worker, turns)
            if report is None or report.reason == "end":
                return
            ((_, kept, _),) = yard.runners[worker]._known._kept.values()
            read = known_of(yard.task, await yard.turns())
            assert (kept.open, kept.unsaved, kept.checkpoint) == (read.open, read.unsaved, read.checkpoint)
            assert kept.progress.view((), 0, "") == read.progress.view((), 0, "")

    asyncio.run(check())


def known(size: int) -> Known:
    task = short(False)
    decision = Decision(thought="x" * size, give_up="no")
    return known_of(task, [TurnRecord(turn=0, decision=decision, observations=())])


def test_what_is_kept_is_bounded_and_the_oldest_goes_first() -> None:
    size = 100_000
    journals = KnownJournals(most_bytes=5 * size)
    for number in range(20):
        journals.keep((f"e-{number}", 1), WRITER, known(size))
    assert len(journals) == 4
    assert journals.taken(("e-0", 1), WRITER) is None
    assert journals.taken(("e-19", 1), WRITER) is not None
    assert journals.taken(("e-19", 1), WRITER) is None, "it is given out once"
    journals.keep(("e-18", 1), WRITER, known(size))
    assert len(journals) == 3
    journals.keep(("e-20", 1), WRITER, known(10 * size))
    assert len(journals) == 0, "one that is larger than all may be is not kept"


def _turn(number: int, *made: Call, codes: Sequence[str] = (), memo: JsonValue = None) -> TurnRecord:
    shown = [
        Observation(tool="add", status="error" if code else "ok", code=code)
        for _, code in zip_longest(made, codes, fillvalue="")
    ]
    return TurnRecord(turn=number, decision=Decision(calls=made, memo=memo), observations=tuple(shown))


def _call(text: str, operation_id: str = "") -> Call:
    named: dict[str, JsonValue] = {"operation_id": operation_id} if operation_id else {}
    return Call(tool="add", arguments={"text": text, **named})


def _asked(number: int) -> TurnRecord:
    shown = Observation(tool="ask", status="ok", content="a" * 50_000)
    return TurnRecord(turn=number, decision=Decision(ask="q" * 50_000), observations=(shown,))


LONG = "x" * 20_000

HELD: dict[str, tuple[Task, list[TurnRecord]]] = {
    "nothing yet": (short(False), []),
    "a large task": (tally_task(metadata={"text": LONG}), []),
    "its turns": (short(False), [_turn(n, _call(f"{n}{LONG}")) for n in range(3)]),
    "the open turn": (short(False), [TurnRecord(turn=0, decision=Decision(calls=(_call(LONG),)))]),
    "a memo": (short(False), [_turn(0, _call("a"), memo=LONG)]),
    "the last call before questions": (short(True), [_turn(0, _call(10 * LONG)), _asked(1), _asked(2)]),
    "remembered calls": (short(True), [_turn(n, _call(f"{n}{LONG}")) for n in range(50)]),
    "remembered operations": (short(True), [_turn(n, _call(LONG, f"{n}{LONG}")) for n in range(50)]),
    "remembered answers": (short(True), [_asked(n) for n in range(50)]),
    "counted errors": (
        short(True),
        [_turn(n, *(_call("a"),) * 32, codes=[f"{n * 32 + m:0200d}" for m in range(32)]) for n in range(100)],
    ),
}


@pytest.mark.parametrize("held", HELD)
def test_whatever_is_kept_counts(held: str) -> None:
    """What is held takes several times its JSON in memory, but not more when it is pickled, where each thing is
    once."""
    most, written = 200_000, pickle.dumps(HELD[held])
    each = len(pickle.dumps(known_of(*HELD[held])))
    journals = KnownJournals(most)
    for number in range(2 + 4 * most // each):
        task, turns = pickle.loads(written)  # no two have anything in common
        journals.keep((f"e-{number}", 1), WRITER, known_of(task, turns))
    assert len(journals) * each < 2 * most


@pytest.mark.parametrize("operation_id", ["", "id"])
def test_of_a_long_call_no_more_is_remembered_than_will_be_told(operation_id: str) -> None:
    def weight(text: str) -> int:
        turns = [_turn(n, _call(f"{n}{text}", operation_id and f"{n}{text}")) for n in range(50)]
        return len(pickle.dumps(known_of(short(True), [*turns, *map(_asked, (50, 51, 52))])))

    assert weight(10 * LONG) - weight(LONG) < 20 * len(LONG), "but for the last call, of which a stall would tell"


async def test_nothing_is_kept_of_an_episode_that_has_ended() -> None:
    yard = Yard(short(False), workers=1)
    await yard.begin()
    for kept in (1, 0):
        await yard.slice(0, TURNS + 1)
        assert len(yard.runners[0]._known) == kept
