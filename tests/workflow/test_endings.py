"""Every way an episode can end leaves nothing behind (I5) and one recorded outcome (I6)."""

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest
from temporalio import workflow
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.enums.v1 import EventType
from temporalio.api.workflowservice.v1 import ResetWorkflowExecutionRequest
from temporalio.client import Client, WorkflowFailureError, WorkflowHandle
from temporalio.exceptions import CancelledError, TerminatedError
from temporalio.exceptions import TimeoutError as WorkflowTimeout

from schemas.decision import Decision
from schemas.episode import End, EpisodeSpec, Validity
from schemas.slice import Ending, Summary
from schemas.start import EpisodeStart, Tuning
from schemas.view import View
from tests.workflow.arena import QUICK, Arena, arena, calls, honest, tally_task, until
from tiltyard.errors import WorldUnreachable
from tiltyard.trace import unpack
from workers.assembly import WORKFLOWS
from workflows.episode import EpisodeWorkflow

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


@workflow.defn(name="Episode")
class BrokenEpisode(EpisodeWorkflow):
    """An episode with a bug in its own code: a plain exception, which Temporal would try again for ever."""

    @workflow.init
    def __init__(self, start: EpisodeStart) -> None:
        super().__init__(start)

    @workflow.run
    async def run(self, start: EpisodeStart) -> Summary:
        return await super().run(start)

    async def _run_turns(self) -> Ending:
        raise ValueError("a bug of the workflow")


async def test_a_plain_exception_in_the_workflow_is_a_recorded_outcome(client: Client, tmp_path: Path) -> None:
    async with arena(client, {"honest": honest}, tmp_path) as place:
        async with place.worker((BrokenEpisode, *WORKFLOWS[1:])):
            spec = await place.plan(tally_task(), "honest")
            await (await place.start(spec)).result()
        result = await place.outcome(spec)
        assert (result.end, result.validity) == (End.ENVIRONMENT_ERROR, Validity.ENVIRONMENT)
        assert "a bug of the workflow" in result.reason
        await place.assert_nothing_left(spec)


@workflow.defn(name="Episode")
class OtherEpisode(EpisodeWorkflow):
    """Replays no history of ``EpisodeWorkflow``: nondeterminism, as a careless change would make it."""

    @workflow.init
    def __init__(self, start: EpisodeStart) -> None:
        super().__init__(start)

    @workflow.run
    async def run(self, start: EpisodeStart) -> Summary:
        await workflow.sleep(timedelta(days=1))
        return await super().run(start)


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
