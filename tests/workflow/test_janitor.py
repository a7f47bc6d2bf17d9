"""What the janitor takes back, and what it leaves alone (I5, I6)."""

from datetime import timedelta
from pathlib import Path

import pytest
from temporalio import activity
from temporalio.client import Client
from temporalio.exceptions import TerminatedError
from temporalio.exceptions import TimeoutError as WorkflowTimeout

from schemas.episode import End, Validity
from schemas.sandbox import SandboxOrder
from schemas.slice import Ending
from schemas.upkeep import Abandoned, InspectOrder, UpkeepOrder, UpkeepReport, UpkeepSummary
from tests.workflow.arena import (
    QUICK,
    Arena,
    Handle,
    arena,
    cause_of,
    honest,
    lease_request,
    lingering,
    started,
    tally_task,
    until,
)
from tests.workflow.boxes import box_task, boxes, evidence_of
from tests.workflow.broken_episodes import OtherEpisode
from tiltyard.errors import EnvironmentFailed, WorldUnreachable
from tiltyard.ports import ChainState
from workers.assembly import WORKFLOWS, activities_of, worker_of
from workers.chains import TemporalChains
from workflows.janitor import JanitorWorkflow


async def test_terminated(client: Client, tmp_path: Path) -> None:
    async with arena(client, {"lingering": lingering}, tmp_path) as place, place.worker():
        spec, handle = await started(place)
        assert not (await place.clean_up()).reclaimed, "the janitor must leave a living episode alone"
        await handle.terminate()
        assert isinstance(await cause_of(handle), TerminatedError)
        assert (await place.clean_up()).reclaimed == (spec.episode_id,)
        result = await place.outcome(spec)
        assert (result.end, result.validity) == (End.TERMINATED, Validity.MISSING)
        assert result.counts.effects == 1
        await place.assert_nothing_left(spec)


async def test_timed_out_by_the_server(client: Client, tmp_path: Path) -> None:
    async with arena(client, {"lingering": lingering}, tmp_path) as place, place.worker():
        spec = await place.plan(tally_task(), "lingering")
        handle = await place.start(spec, timeout=timedelta(seconds=2))
        assert isinstance(await cause_of(handle), WorkflowTimeout)
        await place.clean_up()
        assert (await place.outcome(spec)).end is End.TERMINATED
        await place.assert_nothing_left(spec)


async def test_terminated_before_it_had_a_lease(client: Client, tmp_path: Path) -> None:
    async with arena(client, {"honest": honest}, tmp_path) as place:
        spec = await place.plan(tally_task(), "honest")
        handle = await place.start(spec)
        await handle.terminate()
        async with place.worker():
            await place.clean_up()
        result = await place.outcome(spec)
        assert (result.end, result.validity) == (End.TERMINATED, Validity.MISSING)


async def test_planned_and_never_started(client: Client, tmp_path: Path) -> None:
    async with arena(client, {"honest": honest}, tmp_path) as place, place.worker():
        spec = await place.plan(tally_task(), "honest")
        await place.clean_up()
        assert (await place.outcome(spec)).validity is Validity.MISSING


async def test_an_episode_that_cannot_be_replayed_is_terminated_and_reclaimed(
    client: Client, tmp_path: Path
) -> None:
    async with arena(client, {"lingering": lingering}, tmp_path) as place:
        async with place.worker():
            spec, handle = await started(place)
        async with place.worker((OtherEpisode, *WORKFLOWS[1:])):
            await handle.signal("wake")
            await until(lambda: _failed_attempts(handle, 2))
            summary = await place.clean_up(stuck_attempts=2)
            assert summary.terminated == (handle.id,)
        result = await place.outcome(spec)
        assert (result.end, result.validity) == (End.TERMINATED, Validity.MISSING)
        await place.assert_nothing_left(spec)


async def _failed_attempts(handle: Handle, attempts: int) -> bool:
    found = await handle.describe()
    return found.raw_description.pending_workflow_task.attempt >= attempts


async def test_a_failing_step_of_the_cleanup_hides_neither_outcome_nor_lease(
    client: Client, tmp_path: Path
) -> None:
    """Recycling fails for good: the outcome stands, and the janitor gives the namespace back later."""
    async with arena(client, {"honest": honest}, tmp_path) as place, place.worker():
        place.world.gates["recycle"].failing = lambda: WorldUnreachable("no reply from the world")
        spec = await place.plan(tally_task(), "honest")
        await (await place.start(spec, QUICK.model_copy(update={"patience_s": 3}))).result()
        assert (await place.outcome(spec)).end is End.SUBMITTED
        assert place.engine.leases()
        place.world.gates["recycle"].failing = None
        await place.clean_up()
        await place.assert_nothing_left(spec)
        assert (await place.outcome(spec)).end is End.SUBMITTED, "the first outcome stands"


async def test_the_janitor_judges_only_leases_of_its_own_cluster(client: Client, tmp_path: Path) -> None:
    async with arena(client, {"honest": honest}, tmp_path) as place, place.worker():
        mine = place.engine.lease(lease_request("unrecorded", cluster=place.settings.cluster))
        theirs = place.engine.lease(lease_request("theirs", cluster="another"))
        await place.clean_up()
        assert place.engine.leases() == (theirs,), "the unrecorded one of this cluster is quarantined"
        fresh = place.engine.lease(lease_request("fresh", cluster="another"))
        assert fresh.namespace != mine.namespace


async def test_a_chain_with_another_first_run_is_gone(client: Client, tmp_path: Path) -> None:
    async with arena(client, {"honest": honest}, tmp_path) as place, place.worker():
        spec = await place.plan(tally_task(), "honest")
        handle = await place.start(spec)
        await handle.result()
        owner = lease_request(spec.episode_id, first_run_id=handle.first_execution_run_id or "").owner
        chains = TemporalChains(client)
        assert (await chains.describe(owner)).state is ChainState.COMPLETED
        other = owner.model_copy(update={"first_run_id": "an-earlier-chain"})
        assert (await chains.describe(other)).state is ChainState.GONE


async def test_a_trial_that_starts_while_the_janitor_looks_is_not_called_missing(
    client: Client, tmp_path: Path
) -> None:
    """The janitor saw no workflow; then the episode started. Only one of the two can have the workflow's id."""
    async with arena(client, {"honest": honest}, tmp_path) as place, place.worker():
        spec = await place.plan(tally_task(), "honest")
        gone = Ending.of(End.TERMINATED, "the workflow is gone")
        late = UpkeepReport(
            abandoned=(Abandoned(spec=spec, lease=None, ending=gone, tuning=QUICK, never_ran=True),)
        )
        await (await place.start(spec)).result()

        @activity.defn(name="inspect")
        async def stale(order: InspectOrder) -> UpkeepReport:
            return late

        others = [one for one in activities_of(place.parts, place.settings) if one.__name__ != "inspect"]
        async with worker_of(client, [*others, stale], f"{place.queue}-janitor"):
            summary: UpkeepSummary = await client.execute_workflow(
                JanitorWorkflow.run, UpkeepOrder(), id=f"janitor-{place.queue}", task_queue=f"{place.queue}-janitor"
            )
        assert summary.reclaimed == ()
        assert (await place.outcome(spec)).end is End.SUBMITTED


async def test_without_the_host_of_sandboxes_the_rest_is_cleaned_up_and_the_pass_says_so(
    client: Client, tmp_path: Path
) -> None:
    """An episode that has a sandbox is put off: its files are evidence. The others need no host."""
    async with boxes(client, tmp_path, lingering=lingering) as (place, gated):
        plain, handle = await started(place)
        boxed = await place.plan(box_task(), "sleeper")
        other = await place.start(boxed)
        await until(lambda: len(place.sandboxes.executions) == 2)
        lost = place.engine.lease(lease_request("unrecorded", cluster=place.settings.cluster))
        for one in (handle, other):
            await one.terminate()
        gated.gates["sandboxes"].failing = lambda: EnvironmentFailed("the host of the sandboxes is away")
        await _tells(place, "the host of the sandboxes is away")
        await until(lambda: place.records.result(plain.episode_id))
        await until(lambda: len(place.engine.leases()) == 1)
        assert await place.records.result(boxed.episode_id) is None
        assert lost not in place.engine.leases()
        gated.gates["sandboxes"].failing = None
        assert (await place.clean_up()).reclaimed == (boxed.episode_id,)
        evidence = await evidence_of(place, boxed)
        assert evidence.sandbox is not None
        assert [one.path for one in evidence.sandbox.changes] == ["one.txt"]


@pytest.mark.parametrize("step", ["release", "quarantine"])
async def test_what_cannot_be_ended_holds_up_nothing_else(client: Client, tmp_path: Path, step: str) -> None:
    async with boxes(client, tmp_path, lingering=lingering) as (place, gated):
        plain, handle = await started(place)
        await handle.terminate()
        place.engine.lease(lease_request("unrecorded", cluster=place.settings.cluster))
        stray = await place.sandboxes.provision(_stray(place))
        gate = {"release": gated.gates["release"], "quarantine": place.world.gates["quarantine"]}[step]
        gate.failing = lambda: EnvironmentFailed(f"no {step}")
        await _tells(place, f"no {step}")
        await until(lambda: place.records.result(plain.episode_id))
        await until(lambda: len(place.engine.leases()) == (step == "quarantine"))
        assert [one.ref for one in await place.sandboxes.sandboxes()] == [stray] * (step == "release")
        gate.failing = None
        await place.clean_up()
        assert (place.engine.leases(), await place.sandboxes.sandboxes()) == ((), ())


async def test_one_that_cannot_be_ended_holds_up_no_other(client: Client, tmp_path: Path) -> None:
    async with boxes(client, tmp_path) as (place, gated):
        for name in ("one", "other"):
            await place.sandboxes.provision(_stray(place, name))
        gate = gated.gates["release"]

        def once() -> Exception:
            gate.failing = None
            return EnvironmentFailed("no release")

        gate.failing = once
        await _tells(place, "no release")
        assert len(await place.sandboxes.sandboxes()) == 1
        assert (await place.clean_up()).discarded == 1


async def test_each_pass_sweeps_what_belongs_to_no_sandbox(client: Client, tmp_path: Path) -> None:
    async with boxes(client, tmp_path) as (place, gated):
        place.sandboxes.strays = 2
        gated.gates["sweep"].failing = lambda: EnvironmentFailed("the engine does not answer")
        await _tells(place, "the engine does not answer")
        gated.gates["sweep"].failing = None
        assert [(await place.clean_up()).swept for _ in range(2)] == [2, 0]


async def test_the_sandbox_of_an_examination_lives_as_long_as_the_workflow_that_grades(
    client: Client, tmp_path: Path
) -> None:
    """Its activity may be gone: the next attempt takes its place. When nothing grades any more it holds no slot."""
    async with boxes(client, tmp_path, lingering=lingering) as (place, _):
        spec, handle = await started(place)
        owner = lease_request(spec.episode_id, cluster=place.settings.cluster).owner
        grading = owner.model_copy(update={"workflow_id": handle.id, "first_run_id": ""})
        left = await place.sandboxes.provision(_stray(place).model_copy(update={"owner": grading}))
        assert (await place.clean_up()).discarded == 0
        assert [one.ref for one in await place.sandboxes.sandboxes()] == [left]
        await handle.terminate()
        assert (await place.clean_up()).discarded == 1
        assert await place.sandboxes.sandboxes() == ()


def _stray(place: Arena, name: str = "exam") -> SandboxOrder:
    """A sandbox of a workflow that is gone."""
    owner = lease_request("gone", cluster=place.settings.cluster).owner
    return SandboxOrder(driver="bubblewrap", name=name, incarnation=1, owner=owner, episode_id="gone")


async def _tells(place: Arena, problem: str) -> None:
    assert problem in "; ".join((await place.clean_up()).problems)
