"""Every way an episode can end leaves nothing behind (I5) and one recorded outcome (I6)."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from temporalio import activity
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.enums.v1 import EventType
from temporalio.api.workflowservice.v1 import ResetWorkflowExecutionRequest
from temporalio.client import Client, WorkflowFailureError, WorkflowHandle
from temporalio.exceptions import CancelledError, TerminatedError
from temporalio.exceptions import TimeoutError as WorkflowTimeout

from schemas.decision import Decision
from schemas.episode import End, EpisodeSpec, Validity
from schemas.journal import Writer
from schemas.slice import Ending, LeaseRef, Summary
from schemas.start import Tuning
from schemas.task import Limits
from schemas.upkeep import Abandoned, UpkeepOrder, UpkeepReport, UpkeepSummary
from schemas.view import View
from schemas.world import Facts, LeaseRequest, Owner
from tests.workflow.arena import QUICK, Arena, arena, calls, honest, tally_task, until
from tests.workflow.broken_episodes import BrokenEpisode, OtherEpisode
from tiltyard.errors import BadInput, JournalClosed, NotPristine, WorldUnreachable
from tiltyard.ports import ChainState, World
from tiltyard.trace import unpack
from workers.assembly import WORKFLOWS, activities_of, worker_of
from workers.chains import TemporalChains
from workflows.episode import EpisodeWorkflow
from workflows.janitor import JanitorWorkflow

Handle = WorkflowHandle[EpisodeWorkflow, Summary]


async def lingering(view: View) -> Decision:
    """Adds once with a job pending, then thinks for ever."""
    if view.turn == 0:
        return calls("add_later", name="apples", after_s=3600)
    await asyncio.sleep(3600)
    raise AssertionError


async def started(place: Arena) -> tuple[EpisodeSpec, Handle]:
    """An episode whose first effect has happened and whose policy thinks."""
    spec = await place.plan(tally_task(), "lingering")
    handle = await place.start(spec)
    await until(lambda: place.policies.acted.get(spec.episode_id, 0) >= 2)
    return spec, handle


async def cause_of(handle: Handle) -> BaseException | None:
    with pytest.raises(WorkflowFailureError) as failure:
        await handle.result()
    return failure.value.cause


async def test_cancelled_in_the_turns(client: Client, tmp_path: Path) -> None:
    async with arena(client, {"lingering": lingering}, tmp_path) as place, place.worker():
        spec, handle = await started(place)
        await handle.cancel()
        assert isinstance(await cause_of(handle), CancelledError)
        result = await place.outcome(spec)
        assert (result.end, result.validity, result.counts.effects) == (End.CANCELLED, Validity.MISSING, 1)
        assert (result.drain.jobs_found, result.drain.jobs_cancelled) == (1, 1)
        await place.assert_nothing_left(spec)


async def test_cancelled_while_the_lease_is_being_taken(client: Client, tmp_path: Path) -> None:
    """The cancellation races the creation; the lease is awaited, then given back (inspect_k8s_sandbox 75)."""
    async with arena(client, {"honest": honest}, tmp_path) as place, place.worker():
        place.world.gates["lease"].shut()
        spec = await place.plan(tally_task(), "honest")
        handle = await place.start(spec)
        await place.world.gates["lease"].reached.wait()
        await handle.cancel()
        await asyncio.sleep(0.3)
        place.world.gates["lease"].open()
        assert isinstance(await cause_of(handle), CancelledError)
        assert (await place.outcome(spec)).end is End.CANCELLED
        await place.assert_nothing_left(spec)


async def test_cancelled_before_its_first_task(client: Client, tmp_path: Path) -> None:
    async with arena(client, {"honest": honest}, tmp_path) as place:
        spec = await place.plan(tally_task(), "honest")
        handle = await place.start(spec)
        await handle.cancel()
        async with place.worker():
            assert isinstance(await cause_of(handle), CancelledError)
            assert (await place.outcome(spec)).end is End.CANCELLED
            assert not place.engine.leases()


@pytest.mark.parametrize("step", ["seal", "drain", "facts", "recycle"])
async def test_cancelled_first_and_again_during_cleanup(client: Client, tmp_path: Path, step: str) -> None:
    async with arena(client, {"honest": honest}, tmp_path) as place, place.worker():
        gate = place.world.gates[step]
        gate.shut()
        spec = await place.plan(tally_task(), "honest")
        handle = await place.start(spec)
        await gate.reached.wait()
        await handle.cancel()
        await asyncio.sleep(0.2)
        await handle.cancel()
        await asyncio.sleep(0.2)
        gate.open()
        assert isinstance(await cause_of(handle), CancelledError)
        assert (await place.outcome(spec)).end is End.SUBMITTED
        await place.assert_nothing_left(spec)


async def test_cancelled_in_the_turns_and_again_during_cleanup(client: Client, tmp_path: Path) -> None:
    async with arena(client, {"lingering": lingering}, tmp_path) as place, place.worker():
        gate = place.world.gates["drain"]
        gate.shut()
        spec, handle = await started(place)
        await handle.cancel()
        await gate.reached.wait()
        await handle.cancel()
        await asyncio.sleep(0.2)
        gate.open()
        assert isinstance(await cause_of(handle), CancelledError)
        assert (await place.outcome(spec)).end is End.CANCELLED
        await place.assert_nothing_left(spec)


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


async def test_reset_goes_on_in_the_same_generation_without_a_second_effect(client: Client, tmp_path: Path) -> None:
    think = asyncio.Event()

    async def pausing(view: View) -> Decision:
        if view.turn == 1:
            await think.wait()
        return honest(view)

    async with arena(client, {"pausing": pausing}, tmp_path) as place, place.worker():
        spec = await place.plan(tally_task(), "pausing")
        handle = await place.start(spec, Tuning(heartbeat_s=2, slice_s=0.5, slice_turns=1))
        await until(lambda: place.policies.acted.get(spec.episode_id, 0) >= 2)
        (lease,) = place.engine.leases()
        await _reset_after_the_lease(client, handle)
        think.set()
        await client.get_workflow_handle(handle.id).result()
        result = await place.outcome(spec)
        assert (result.end, result.counts.effects, result.score.completion) == (End.SUBMITTED, 1, 1)
        assert (lease.namespace, lease.generation) == (await _facts_of(place, result.trace))
        await place.assert_nothing_left(spec)


async def _facts_of(place: Arena, trace: str) -> tuple[str, int]:
    facts = unpack(await place.objects.get(trace)).evidence.facts
    return facts.namespace, facts.generation


async def _reset_after_the_lease(client: Client, handle: Handle) -> None:
    history = await handle.fetch_history()
    tasks = [e.event_id for e in history.events if e.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED]
    await client.workflow_service.reset_workflow_execution(
        ResetWorkflowExecutionRequest(
            namespace=client.namespace,
            workflow_execution=WorkflowExecution(workflow_id=handle.id, run_id=handle.first_execution_run_id or ""),
            reason="a test resets it",
            workflow_task_finish_event_id=tasks[1],
            request_id=f"reset-{handle.id}",
        )
    )


async def test_a_plain_exception_in_the_workflow_is_a_recorded_outcome(client: Client, tmp_path: Path) -> None:
    async with arena(client, {"honest": honest}, tmp_path) as place:
        async with place.worker((BrokenEpisode, *WORKFLOWS[1:])):
            spec = await place.plan(tally_task(), "honest")
            await (await place.start(spec)).result()
        result = await place.outcome(spec)
        assert (result.end, result.validity) == (End.ENVIRONMENT_ERROR, Validity.ENVIRONMENT)
        assert "a bug of the workflow" in result.reason
        await place.assert_nothing_left(spec)


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


async def test_a_world_out_of_reach_past_the_deadline_is_an_environment_error(
    client: Client, tmp_path: Path
) -> None:
    async with arena(client, {"honest": honest}, tmp_path) as place:
        place.settings = place.settings.model_copy(update={"call_deadline": timedelta(seconds=0.3)})
        place.world.gates["call"].failing = lambda: WorldUnreachable("no reply from the world")
        async with place.worker():
            spec = await place.plan(tally_task(), "honest")
            await (await place.start(spec)).result()
        result = await place.outcome(spec)
        assert (result.end, result.validity) == (End.ENVIRONMENT_ERROR, Validity.ENVIRONMENT)
        await place.assert_nothing_left(spec)


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


async def test_a_worker_that_stops_leaves_the_episode_to_the_next_one(client: Client, tmp_path: Path) -> None:
    release = asyncio.Event()

    async def slow(view: View) -> Decision:
        if view.turn == 1:
            await release.wait()
        return honest(view)

    async with arena(client, {"slow": slow}, tmp_path) as place:
        async with place.worker():
            spec = await place.plan(tally_task(), "slow")
            handle = await place.start(spec)
            await until(lambda: place.policies.acted.get(spec.episode_id, 0) >= 2)
        release.set()
        async with place.worker():
            await handle.result()
        assert (await place.outcome(spec)).counts.effects == 1
        await place.assert_nothing_left(spec)


async def test_a_policy_that_cannot_be_opened_is_a_policy_error(client: Client, tmp_path: Path) -> None:
    async with arena(client, {}, tmp_path) as place, place.worker():
        spec = await place.plan(tally_task(), "nobody")
        await (await place.start(spec)).result()
        assert (await place.outcome(spec)).end is End.POLICY_ERROR
        await place.assert_nothing_left(spec)


async def test_a_cancellation_is_kept_when_the_step_that_it_waits_for_fails(client: Client, tmp_path: Path) -> None:
    async with arena(client, {"honest": honest}, tmp_path) as place, place.worker():
        gate = place.world.gates["lease"]
        gate.shut()
        gate.failing = lambda: BadInput("no such template", field="template")
        spec = await place.plan(tally_task(), "honest")
        handle = await place.start(spec)
        await gate.reached.wait()
        await handle.cancel()
        await asyncio.sleep(0.3)
        gate.open()
        assert isinstance(await cause_of(handle), CancelledError)
        assert (await place.outcome(spec)).end is End.CANCELLED


async def test_a_policy_that_swallows_its_cancellation_ends_all_the_same(client: Client, tmp_path: Path) -> None:
    async def deaf(view: View) -> Decision:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(0.2)
        return calls("add", name="apples", amount=view.turn + 1)

    async with arena(client, {"deaf": deaf}, tmp_path) as place, place.worker():
        spec = await place.plan(tally_task(), "deaf")
        handle = await place.start(spec, Tuning(heartbeat_s=1, slice_s=0.5))
        await until(lambda: place.policies.acted.get(spec.episode_id, 0) >= 2)
        await handle.cancel()
        assert isinstance(await cause_of(handle), CancelledError)
        assert (await place.outcome(spec)).end is End.CANCELLED
        await place.assert_nothing_left(spec)


async def test_an_outage_of_the_worker_is_not_charged_to_the_policy(client: Client, tmp_path: Path) -> None:
    async with arena(client, {"honest": honest}, tmp_path) as place:
        spec = await place.plan(tally_task(limits=Limits(wall_s=2)), "honest")
        tuning = Tuning(heartbeat_s=1, slice_s=0.5, slice_turns=1)
        place.world.gates["call"].shut()
        async with place.worker():
            handle = await place.start(spec, tuning)
            await place.world.gates["call"].reached.wait()
        await asyncio.sleep(3)
        place.world.gates["call"].open()
        async with place.worker():
            await handle.result()
        assert (await place.outcome(spec)).end is End.SUBMITTED


async def test_a_namespace_that_cannot_be_closed_is_quarantined_and_the_outcome_recorded(
    client: Client, tmp_path: Path
) -> None:
    async with arena(client, {"honest": honest}, tmp_path) as place, place.worker():
        place.world.gates["drain"].failing = lambda: NotPristine("the template has changed")
        spec = await place.plan(tally_task(), "honest")
        await (await place.start(spec)).result()
        result = await place.outcome(spec)
        assert (result.end, result.validity) == (End.SUBMITTED, Validity.ENVIRONMENT)
        assert not place.engine.leases()
        (lease,) = [place.engine.lease(lease_request("next"))]
        assert lease.namespace != await namespace_of(client, handle_id=f"episode/{spec.episode_id}")


async def namespace_of(client: Client, handle_id: str) -> str:
    """The namespace that the episode had leased, from its history."""
    history = await client.get_workflow_handle(handle_id).fetch_history()
    done = [event.activity_task_completed_event_attributes for event in history.events]
    payload = next(one for one in done if one.result.payloads).result.payloads[0]
    return LeaseRef.model_validate_json(payload.data).namespace


def lease_request(episode_id: str, cluster: str = "here", first_run_id: str = "run") -> LeaseRequest:
    owner = Owner(
        cluster=cluster,
        temporal_namespace="default",
        workflow_id=f"episode/{episode_id}",
        first_run_id=first_run_id,
    )
    return LeaseRequest(owner=owner, episode_id=episode_id, world="tally")


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


async def test_nothing_is_journalled_after_the_end(client: Client, tmp_path: Path) -> None:
    async with arena(client, {"lingering": lingering}, tmp_path) as place, place.worker():
        spec, handle = await started(place)
        (lease,) = place.engine.leases()
        await handle.cancel()
        await cause_of(handle)
        with pytest.raises(JournalClosed):
            await place.journal.take(
                spec.episode_id, lease.generation, Writer(run_id="late", slice_no=99, attempt_id="late")
            )


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
        async def stale(order: UpkeepOrder) -> UpkeepReport:
            return late

        others = [one for one in activities_of(place.parts, place.settings) if one.__name__ != "inspect"]
        async with worker_of(client, [*others, stale], f"{place.queue}-janitor"):
            summary: UpkeepSummary = await client.execute_workflow(
                JanitorWorkflow.run, UpkeepOrder(), id=f"janitor-{place.queue}", task_queue=f"{place.queue}-janitor"
            )
        assert summary.reclaimed == ()
        assert (await place.outcome(spec)).end is End.SUBMITTED


@pytest.mark.parametrize(("gate", "reading"), [("call", "absent"), ("answering", "committed")])
async def test_a_call_in_flight_at_the_seal_is_read_as_what_it_was(
    client: Client, tmp_path: Path, gate: str, reading: str
) -> None:
    async with arena(client, {"honest": honest}, tmp_path) as place, place.worker():
        place.world.gates[gate].shut()
        spec = await place.plan(tally_task(), "honest")
        handle = await place.start(spec)
        await place.world.gates[gate].reached.wait()
        await handle.cancel()
        await cause_of(handle)
        evidence = unpack(await place.objects.get((await place.outcome(spec)).trace)).evidence
        assert list(evidence.in_flight.values()) == [reading]
        assert (len(evidence.facts.changes) == 1) == (reading == "committed")


async def test_an_unknown_outcome_quarantines_the_namespace(client: Client, tmp_path: Path) -> None:
    """A world whose record of the call in flight says neither yes nor no."""
    async with arena(client, {"honest": honest}, tmp_path) as place:
        undecided = Undecided(place.world)
        parts = replace(place.parts, world=undecided)
        async with place.worker(parts=parts):
            place.world.gates["answering"].shut()
            spec = await place.plan(tally_task(), "honest")
            handle = await place.start(spec)
            await place.world.gates["answering"].reached.wait()
            (lease,) = place.engine.leases()
            await handle.cancel()
            await cause_of(handle)
        evidence = unpack(await place.objects.get((await place.outcome(spec)).trace)).evidence
        assert list(evidence.in_flight.values()) == ["unknown"]
        assert place.engine.lease(lease_request("next")).namespace != lease.namespace


class Undecided:
    """A world that answers like another one, and does not tell how its last delivery ended."""

    def __init__(self, world: World) -> None:
        self._world = world

    def __getattr__(self, name: str) -> Any:
        return getattr(self._world, name)

    async def facts(self, namespace: str, generation: int, collections: Sequence[str]) -> Facts:
        facts = await self._world.facts(namespace, generation, collections)
        *others, last = facts.deliveries
        return facts.model_copy(update={"deliveries": (*others, last.model_copy(update={"reply": None}))})
