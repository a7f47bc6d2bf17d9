"""A workflow that is reset goes on in the same generation: nothing is done twice, and there is one outcome."""

import asyncio
from pathlib import Path

import pytest
from temporalio.client import Client

from schemas.decision import Decision
from schemas.episode import End, EpisodeSpec, Validity
from schemas.journal import Writer
from schemas.task import Task
from schemas.view import View
from schemas.world import Lease
from tests.workflow.arena import QUICK, Arena, Handle, arena, calls, lease_request, tally_task, until
from tests.workflow.boxes import assert_no_sandbox, box_task
from tests.workflow.resets import reset, runs_of, tasks_of
from tiltyard.testing.memory_journal import MemoryJournal
from tiltyard.trace import unpack

ONE_TURN = QUICK.model_copy(update={"slice_turns": 1})
TURNS = 4


class Adding:
    """Adds in each of its turns, a job pending; it thinks in its turn ``at`` until it may go on. ``asked`` are the
    turns that it was asked for."""

    def __init__(self, at: int = 2) -> None:
        self.at, self.asked, self.may_go_on = at, list[int](), asyncio.Event()

    async def __call__(self, view: View) -> Decision:
        self.asked.append(view.turn)
        if view.turn == self.at:
            await self.may_go_on.wait()
        if view.turn == TURNS:
            return Decision(submit={"done": True})
        later = calls("add_later", name="apples", after_s=3600).calls
        return Decision(calls=(*calls("add", name="apples", amount=view.turn + 1).calls, *later))


async def begun(place: Arena, adding: Adding, task: Task, **tuning: int) -> tuple[EpisodeSpec, Handle, Lease]:
    """An episode that thinks in a turn, and its lease."""
    spec = await place.plan(task, "adding")
    handle = await place.start(spec, ONE_TURN.model_copy(update=tuning))
    await until(lambda: adding.at in adding.asked)
    (lease,) = place.engine.leases()
    return spec, handle, lease


async def assert_one_outcome(place: Arena, spec: EpisodeSpec, lease: Lease, effects: int = 2 * TURNS) -> None:
    """In that generation, with each effect once, and nothing left."""
    result = await place.outcome(spec)
    assert (result.end, result.validity) == (End.SUBMITTED, Validity.VALID)
    assert (result.counts.turns, result.counts.effects, result.counts.duplicates) == (TURNS + 1, effects, TURNS - 1)
    facts = unpack(await place.objects.get(result.trace)).evidence.facts
    assert (facts.namespace, facts.generation) == (lease.namespace, lease.generation)
    await place.assert_nothing_left(spec)
    await assert_no_sandbox(place)


@pytest.mark.parametrize("task", [tally_task(), box_task()], ids=["without a sandbox", "with one"])
@pytest.mark.parametrize(
    "back_to", [0, 1, 2, -1], ids=["before the lease", "after it", "after a turn", "this turn"]
)
async def test_in_the_middle_of_a_turn_whose_slice_still_runs(
    client: Client, tmp_path: Path, task: Task, back_to: int
) -> None:
    adding = Adding()
    async with arena(client, {"adding": adding}, tmp_path) as place, place.worker():
        spec, handle, lease = await begun(place, adding, task)
        await reset(client, handle.id, (await tasks_of(client, handle.id))[back_to])
        await until(lambda: adding.asked.count(adding.at) > 1)
        adding.may_go_on.set()
        await client.get_workflow_handle(handle.id).result()
        await assert_one_outcome(place, spec, lease)
        assert [adding.asked.count(turn) for turn in range(adding.at)] == [1] * adding.at, "journalled turns"


async def test_a_slice_of_the_run_before_that_does_not_stop_decides_nothing_any_more(
    client: Client, tmp_path: Path
) -> None:
    await _reset_beside_a_slice_that_goes_on(client, tmp_path, MemoryJournal())


class Tokenless(MemoryJournal):
    """A journal in which everybody may write."""

    async def decide(self, episode_id: str, generation: int, writer: Writer, turn: int, decision: Decision) -> None:
        holder = self._book(episode_id, generation).token.holder
        await super().decide(episode_id, generation, holder or writer, turn, decision)


async def test_without_the_writer_token_it_would(client: Client, tmp_path: Path) -> None:
    with pytest.raises(AssertionError):
        await _reset_beside_a_slice_that_goes_on(client, tmp_path, Tokenless())


async def _reset_beside_a_slice_that_goes_on(client: Client, home: Path, journal: MemoryJournal) -> None:
    """It is told of its end and goes on all the same; the journal refuses what it decides."""
    late, woken = asyncio.Event(), asyncio.Event()

    class Deaf(Adding):
        async def __call__(self, view: View) -> Decision:
            if view.turn != self.at or self.at in self.asked:
                return await super().__call__(view)
            self.asked.append(view.turn)
            while not late.is_set():
                try:
                    await late.wait()
                except asyncio.CancelledError:
                    continue
            woken.set()
            return calls("add", name="apples", amount=99)

    adding = Deaf()
    async with arena(client, {"adding": adding}, home) as place:
        place.journal = journal
        await _played_on(place, adding, late, woken)


async def _played_on(place: Arena, adding: Adding, late: asyncio.Event, woken: asyncio.Event) -> None:
    async with place.worker():
        spec, handle, lease = await begun(place, adding, tally_task())
        await reset(place.client, handle.id, (await tasks_of(place.client, handle.id))[-1])
        await until(lambda: adding.asked.count(adding.at) > 1)
        late.set()
        await woken.wait()
        await asyncio.sleep(0.2)  # the late slice writes, or is refused
        adding.may_go_on.set()
        await place.client.get_workflow_handle(handle.id).result()
        await assert_one_outcome(place, spec, lease)


async def test_while_a_call_is_on_its_way_back(client: Client, tmp_path: Path) -> None:
    """It has taken effect; the next run sends the same delivery again and is told what came of it."""
    adding = Adding(at=TURNS + 1)
    async with arena(client, {"adding": adding}, tmp_path) as place, place.worker():
        gate = place.world.gates["answering"]
        gate.shut()
        spec = await place.plan(tally_task(), "adding")
        handle = await place.start(spec, ONE_TURN)
        await gate.reached.wait()
        (lease,) = place.engine.leases()
        gate.reached.clear()
        await reset(client, handle.id, (await tasks_of(client, handle.id))[-1])
        await gate.reached.wait()
        gate.open()
        await client.get_workflow_handle(handle.id).result()
        await assert_one_outcome(place, spec, lease)


@pytest.mark.parametrize("step", ["seal", "drain", "facts", "recycle"])
@pytest.mark.parametrize("back_to", [0, 1, -1], ids=["before the lease", "after it", "last task"])
async def test_while_it_is_being_closed(client: Client, tmp_path: Path, step: str, back_to: int) -> None:
    """The journal may be closed by then: the run that goes on comes to the same end."""
    adding = Adding(at=TURNS + 1)
    async with arena(client, {"adding": adding}, tmp_path) as place, place.worker():
        gate = place.world.gates[step]
        gate.shut()
        spec = await place.plan(box_task(), "adding")
        handle = await place.start(spec, ONE_TURN)
        await gate.reached.wait()
        (lease,) = place.engine.leases()
        await reset(client, handle.id, (await tasks_of(client, handle.id))[back_to])
        gate.open()
        await client.get_workflow_handle(handle.id).result()
        await place.clean_up()
        await assert_one_outcome(place, spec, lease)


@pytest.mark.parametrize("back_to", [0, 1, 3, -1], ids=["before the lease", "after it", "a turn", "last task"])
async def test_after_its_end_when_another_has_the_namespace(client: Client, tmp_path: Path, back_to: int) -> None:
    """Its outcome stands, nobody is asked again, and the other one is not disturbed."""
    adding = Adding(at=TURNS + 1)
    async with arena(client, {"adding": adding}, tmp_path) as place, place.worker():
        spec = await place.plan(box_task(), "adding")
        handle = await place.start(spec, ONE_TURN)
        await until(lambda: bool(place.engine.leases()))
        (lease,) = place.engine.leases()
        await handle.result()
        first = await place.outcome(spec)
        other = place.engine.lease(lease_request("another", cluster="another"))
        assert (other.namespace, other.generation > lease.generation) == (lease.namespace, True)
        asked = len(adding.asked)
        await reset(client, handle.id, (await tasks_of(client, handle.id))[back_to])
        await client.get_workflow_handle(handle.id).result()
        await place.clean_up()
        assert await place.outcome(spec) == first
        assert place.engine.leases() == (other,)
        await assert_no_sandbox(place)
        assert len(adding.asked) == asked
        state = place.engine.lease(lease_request("another", cluster="another"))
        assert state == other


@pytest.mark.parametrize("run", [0, 1, -1], ids=["its first run", "another one", "its last run"])
async def test_a_run_of_a_chain_that_has_continued_as_new(client: Client, tmp_path: Path, run: int) -> None:
    """Whichever run it goes back to: the journal has what was decided since, and the newest run writes it."""
    adding = Adding(at=3)
    async with arena(client, {"adding": adding}, tmp_path) as place, place.worker():
        spec, handle, lease = await begun(place, adding, tally_task(), slices_per_run=1)
        runs = await runs_of(client, handle.id)
        assert len(runs) == 4
        tasks = await tasks_of(client, handle.id, runs[run])
        await reset(client, handle.id, tasks[0], runs[run])
        await until(lambda: adding.asked.count(adding.at) > 1)
        adding.may_go_on.set()
        await client.get_workflow_handle(handle.id).result()
        await assert_one_outcome(place, spec, lease)
        assert [adding.asked.count(turn) for turn in range(adding.at)] == [1] * adding.at


@pytest.mark.parametrize("task", [tally_task(), box_task()], ids=["without a sandbox", "with one"])
@pytest.mark.parametrize("back_to", [0, 1, -1], ids=["before the lease", "after it", "this turn"])
async def test_a_fork_begins_once(client: Client, tmp_path: Path, task: Task, back_to: int) -> None:
    """Its past is in its namespace and its journal already, and is not taken over again."""
    adding = Adding(at=TURNS + 1)
    async with arena(client, {"adding": adding}, tmp_path) as place, place.worker():
        parent = await place.run(task, "adding", ONE_TURN)
        spec = await place.ground.plan_fork(parent.episode_id, 2)
        await place.records.plan([spec])
        adding.at = 3
        adding.asked.clear()
        handle = await place.start(spec, ONE_TURN)
        await until(lambda: adding.at in adding.asked)
        (lease,) = place.engine.leases()
        await reset(client, handle.id, (await tasks_of(client, handle.id))[back_to])
        await until(lambda: adding.asked.count(adding.at) > 1)
        adding.may_go_on.set()
        await client.get_workflow_handle(handle.id).result()
        await assert_one_outcome(place, spec, lease)
        assert (await place.outcome(spec)).digests.trace == parent.digests.trace
        assert adding.asked.count(2) == 1
