"""Forks as workflows: of running episodes, through crashes of the step that takes the past over, to every end."""

from pathlib import Path

import pytest
from temporalio.client import Client

from schemas.base import JsonValue
from schemas.decision import Decision
from schemas.episode import End, EpisodeResult, EpisodeSpec, PolicySpec, Validity
from schemas.start import Tuning
from schemas.task import Limits, Task
from schemas.view import View
from tests.workflow.arena import QUICK, Arena, arena, calls, tally_task, until
from tests.workflow.boxes import ONE_TURN, box_task, boxes, evidence_of, said, writer
from tiltyard.episode.said import NOT_SEEN, NOT_WATCHED
from tiltyard.errors import BadInput, WorldUnreachable
from tiltyard.reopen.changing import changed
from tiltyard.testing.memory_policies import Act
from tiltyard.testing.once import flaws

ADDS = 4


def adder(view: View) -> Decision:
    """Adds once a turn, each under an operation id of its own, and leaves work for later."""
    if view.turn == ADDS:
        return Decision(submit={"done": True})
    if view.turn == 1:
        return calls("add_later", name="pears", after_s=3600, operation_id="later")
    return calls("add", name="apples", operation_id=f"op-{view.turn}")


def twice(view: View) -> Decision:
    """Resends what the episode did before, under its operation id and under another one."""
    before = calls("add", name="apples", operation_id="op-0"), calls("add", name="apples", operation_id="new")
    turns = view.turn - 2
    return before[turns] if turns < len(before) else Decision(submit={"done": True})


async def asking(view: View) -> Decision:
    if view.turn == 2:
        return Decision(ask="Go on?")
    return adder(view) if view.turn < 2 else Decision(submit={"done": True})


POLICIES: dict[str, Act] = {"adder": adder, "twice": twice, "asking": asking, "writer": writer}


async def forked(
    place: Arena, parent: str, turn: int, tuning: Tuning = QUICK, *, policy: str = "", task: Task | None = None
) -> tuple[EpisodeSpec, EpisodeResult]:
    spec = await place.ground.plan_fork(
        parent, turn, task=task, policy=PolicySpec(target=policy) if policy else None
    )
    await place.records.plan([spec])
    await (await place.start(spec, tuning)).result()
    return spec, await place.outcome(spec)


async def test_it_has_the_past_and_a_receipt_of_it_is_known(client: Client, tmp_path: Path) -> None:
    """An operation that the parent was accepted for is not done again; another id is another effect."""
    async with arena(client, POLICIES, tmp_path) as place, place.worker():
        parent = await place.run(tally_task(), "adder")
        spec, result = await forked(place, parent.episode_id, 2, policy="twice")
        assert (result.end, result.validity) == (End.SUBMITTED, Validity.VALID)
        assert result.origin == spec.origin
        assert (result.counts.effects, result.counts.duplicates) == (3, 1), "two of the parent's, one of its own"
        evidence = await evidence_of(place, spec)
        assert flaws(evidence.facts) == ()
        causes = {row.cause for row in evidence.facts.ledger if row.cause_kind == "delivery"}
        assert all(cause.startswith(f"{spec.episode_id}/") for cause in causes)
        assert [job.state for job in evidence.facts.jobs] == ["cancelled"], (
            "the parent's job was pending at its turn"
        )
        await place.assert_nothing_left(spec)


@pytest.mark.parametrize(
    "tuning", [QUICK, ONE_TURN.model_copy(update={"slices_per_run": 1})], ids=["one run", "many"]
)
async def test_it_does_what_its_parent_did(client: Client, tmp_path: Path, tuning: Tuning) -> None:
    async with arena(client, POLICIES, tmp_path) as place, place.worker():
        parent = await place.run(tally_task(), "adder")
        for turn in range(ADDS + 1):
            _, fork = await forked(place, parent.episode_id, turn, tuning)
            assert fork.digests == parent.digests, f"forked before turn {turn}"
        _, again = await forked(place, fork.episode_id, 2)
        assert again.digests == parent.digests, "a fork of a fork"


async def test_an_episode_that_goes_on_can_be_branched(client: Client, tmp_path: Path) -> None:
    """While it asks a person; it is answered afterwards, as if there had been no fork."""
    async with arena(client, POLICIES, tmp_path) as place, place.worker():
        spec = await place.plan(tally_task(), "asking")
        handle = await place.start(spec)
        await until(lambda: _asks(place, spec))
        before = await held(place, spec)
        _, fork = await forked(place, spec.episode_id, 2, policy="adder")
        assert fork.end is End.SUBMITTED
        assert await held(place, spec) == before, "the parent is as it was"
        for turn in (3, 4):
            with pytest.raises(BadInput, match="choose one from 0 to 2"):  # its turn 2 has not ended
                await place.ground.plan_fork(spec.episode_id, turn)
        await place.ground.answer(spec.episode_id, "yes")
        await handle.result()
        undisturbed = await place.run(tally_task(answers=("yes",)), "asking")
        assert (await place.outcome(spec)).digests.trace == undisturbed.digests.trace


async def held(place: Arena, spec: EpisodeSpec) -> tuple[object, ...]:
    """All that an open episode has: of its world, of its journal, of its sandbox."""
    (lease,) = [one for one in await place.world.leases() if one.episode_id == spec.episode_id]
    boxes = [one for one in await place.sandboxes.sandboxes() if one.ref.name == spec.episode_id]
    return (
        await place.world.so_far(lease.namespace, lease.generation),
        await place.journal.read(spec.episode_id, lease.generation),
        [(one, await place.sandboxes.snapshot(one.ref, {})) for one in boxes],
    )


async def _asks(place: Arena, spec: EpisodeSpec) -> bool:
    return bool((await place.ground.status(spec.episode_id)).question)


@pytest.mark.parametrize("gate", ["lease", "so_far", "leases"])
async def test_a_step_that_fails_in_the_middle_is_done_once(client: Client, tmp_path: Path, gate: str) -> None:
    """The world is away when the past is read or taken over, or the reply of the lease is lost."""
    failures = 2

    def away() -> Exception:
        nonlocal failures
        failures -= 1
        if failures <= 0:
            place.world.gates[gate].failing = None
        return WorldUnreachable("away")

    async with arena(client, POLICIES, tmp_path) as place, place.worker():
        spec = await place.plan(tally_task(), "asking")
        await place.start(spec)
        await until(lambda: _asks(place, spec))
        place.world.gates[gate].failing = away
        child, fork = await forked(place, spec.episode_id, 2, policy="adder")
        assert failures <= 0
        assert fork.end is End.SUBMITTED
        assert flaws((await evidence_of(place, child)).facts) == ()
        await place.ground.stop(spec.episode_id)


async def test_another_task_is_one_of_the_fork_s_own(client: Client, tmp_path: Path) -> None:
    async with arena(client, POLICIES, tmp_path) as place, place.worker():
        parent = await place.run(tally_task(), "adder")
        task = tally_task(limits=Limits(turns=3), instruction="Add no more.")
        spec, fork = await forked(place, parent.episode_id, 2, task=task)
        assert (fork.end, fork.counts.turns) == (End.BUDGET_EXHAUSTED, 3), "turns of the parent count"
        assert fork.digests.task != parent.digests.task
        again, _ = await forked(place, spec.episode_id, 2)
        assert (again.task_digest, again.limits.turns) == (spec.task_digest, 3)


@pytest.mark.parametrize("limits", [{"turns": 2}, {"tool_calls": 2}, {"virtual_s": 1}])
async def test_limits_that_the_kept_turns_have_used_up_are_refused(
    client: Client, tmp_path: Path, limits: dict[str, JsonValue]
) -> None:
    async with arena(client, POLICIES, tmp_path) as place, place.worker():
        parent = await place.run(tally_task(), "adder")
        task = changed(tally_task(), limits=limits)
        with pytest.raises(BadInput, match="used up by the 3 turns that stay") as refused:
            await place.ground.plan_fork(parent.episode_id, 3, task=task)
        assert refused.value.field == f"limits.{next(iter(limits))}"
        assert (await place.ground.plan_fork(parent.episode_id, 0, task=task)).limits == task.limits


async def test_one_that_was_terminated_is_closed_by_the_janitor(client: Client, tmp_path: Path) -> None:
    async with arena(client, POLICIES, tmp_path) as place, place.worker():
        parent = await place.run(tally_task(), "adder")
        spec = await place.ground.plan_fork(parent.episode_id, 2, policy=PolicySpec(target="asking"))
        await place.records.plan([spec])
        handle = await place.start(spec)
        await until(lambda: _asks(place, spec))
        await handle.terminate()
        assert (await place.clean_up()).reclaimed == (spec.episode_id,)
        result = await place.outcome(spec)
        assert (result.end, result.origin) == (End.TERMINATED, spec.origin)
        await place.assert_nothing_left(spec)


async def test_files_and_clock_are_those_of_the_turn(client: Client, tmp_path: Path) -> None:
    async with boxes(client, tmp_path) as (place, _):
        for tuning in (ONE_TURN, QUICK):
            parent = await place.run(box_task(), "writer", tuning)
            for turn in range(4):
                spec, fork = await forked(place, parent.episode_id, turn, ONE_TURN)
                assert fork.digests == parent.digests, f"forked before turn {turn}"
                shown = said(await evidence_of(place, spec))
                assert shown[-1] == "start\nline-0\nline-1\nline-2\n"


async def test_a_sandbox_that_a_fork_loses_is_made_anew_from_the_turn_of_the_fork(
    client: Client, tmp_path: Path
) -> None:
    """Before it has a checkpoint of its own."""
    told: list[str] = []

    async def loser(view: View) -> Decision:
        told.append(view.notice)
        if view.turn == 2 and len(told) == 1:
            place.sandboxes.lose(spec.episode_id)
            return calls("shell", command="cat notes.txt")
        return await writer(view) if view.turn < 2 else await last(view)

    async def last(view: View) -> Decision:
        return calls("shell", command="cat notes.txt") if view.turn == 3 else Decision(submit={"done": True})

    async with boxes(client, tmp_path, loser=loser) as (place, _):
        parent = await place.run(box_task(), "writer")
        spec = await place.ground.plan_fork(parent.episode_id, 2, policy=PolicySpec(target="loser"))
        await place.records.plan([spec])
        await (await place.start(spec, ONE_TURN)).result()
        shown = said(await evidence_of(place, spec))
        assert shown[2:] == ["sandbox_lost", "start\nline-0\nline-1\n"]
        assert "its files are as they were after turn 1" in told[1]


async def test_what_a_fork_lacks_is_told_whoever_closes_it(client: Client, tmp_path: Path) -> None:
    """The fork itself, or the janitor after it was terminated."""
    async with boxes(client, tmp_path, halting=halting) as (place, _):
        parent = await place.plan(box_task(), "halting")
        await place.start(parent, ONE_TURN)
        await until(lambda: _asks(place, parent))
        for way in ("stop", "terminate"):
            spec = await place.ground.plan_fork(parent.episode_id, 2)
            await place.records.plan([spec])
            before = await held(place, parent)
            handle = await place.start(spec, ONE_TURN)
            await until(lambda spec=spec: _asks(place, spec))
            assert await held(place, parent) == before, "the parent is as it was"
            if way == "stop":
                await place.ground.stop(spec.episode_id)
                await handle.result()
            else:
                await handle.terminate()
                await place.clean_up()
            assert (await place.outcome(spec)).not_restored == (NOT_WATCHED, NOT_SEEN), way
        await place.ground.stop(parent.episode_id)


def halting(view: View) -> Decision:
    return calls("shell", command=f"echo {view.turn} > one.txt") if view.turn < 2 else Decision(ask="Go on?")
