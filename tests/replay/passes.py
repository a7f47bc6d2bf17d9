"""What the janitor does, and what hosts do to episodes: kinds of histories that are saved."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress

from temporalio.client import WorkflowFailureError

from schemas.episode import workflow_id
from schemas.host import Capacity, HostBeat
from schemas.sandbox import SandboxOrder
from schemas.start import Tuning
from schemas.upkeep import UpkeepOrder
from tests.replay.kinds import Runs, thoughtful
from tests.workflow.arena import QUICK, Arena, lease_request, tally_task, until
from tests.workflow.boxes import box_task
from tests.workflow.two_hosts import HURRIED, exam, host
from tiltyard.errors import WorldUnreachable
from tiltyard.testing.memory_sandboxes import MemorySandboxes
from workflows.janitor import JanitorWorkflow

PASS = "janitor"


async def clean_up(place: Arena) -> tuple[str, str | None]:
    """One pass of the janitor, whatever comes of it."""
    order = UpkeepOrder(tuning=QUICK, grace_s=0, stuck_attempts=2)
    handle = await place.client.start_workflow(
        JanitorWorkflow.run, order, id=f"janitor-{place.queue}", task_queue=place.queue
    )
    with suppress(WorkflowFailureError):
        await handle.result()
    return handle.id, None


def reclaim_of(episode_id: str, generation: int) -> tuple[str, str | None]:
    return f"reclaim/{episode_id}/{generation}", None


async def janitor_finds_nothing(place: Arena) -> Runs:
    return {"pass": await clean_up(place)}


async def janitor_reclaims(place: Arena) -> Runs:
    """A terminated one with a lease, one that never ran, and a sandbox of a workflow that is gone."""
    episode = await thoughtful(place)
    (lease,) = place.engine.leases()
    await place.client.get_workflow_handle(workflow_id(episode)).terminate()
    missing = await place.plan(tally_task(), "honest")
    await place.sandboxes.provision(_stray(place))
    done = await clean_up(place)
    await until(lambda: place.records.result(episode))
    await until(lambda: place.records.result(missing.episode_id))
    return {
        "pass": done,
        "reclaim": reclaim_of(episode, lease.generation),
        "never_ran": (workflow_id(missing.episode_id), None),
    }


async def janitor_collects_a_sandbox(place: Arena) -> Runs:
    spec = await place.plan(box_task(), "sleeper")
    handle = await place.start(spec)
    await until(lambda: len(place.sandboxes.executions) == 2)
    (lease,) = place.engine.leases()
    await handle.terminate()
    done = await clean_up(place)
    await until(lambda: place.records.result(spec.episode_id))
    return {"pass": done, "reclaim": reclaim_of(spec.episode_id, lease.generation)}


async def janitor_fails(place: Arena) -> Runs:
    """Saved is an older pass, which failed with what it could not do. One that is recorded now tells it."""
    return await janitor_cannot_do_all(place)


async def janitor_cannot_do_all(place: Arena) -> Runs:
    """The rest of the pass is done, and its result says what it could not do."""
    place.engine.lease(lease_request("unrecorded", cluster=place.settings.cluster))
    place.world.gates["quarantine"].failing = lambda: WorldUnreachable("no reply from the world")
    return {"pass": await clean_up(place)}


def _stray(place: Arena) -> SandboxOrder:
    owner = lease_request("gone", cluster=place.settings.cluster).owner
    return SandboxOrder(driver="bubblewrap", name="exam", incarnation=1, owner=owner, episode_id="gone")


async def host_lost(place: Arena) -> Runs:
    """In the middle of a command; the episode goes on with the host that is left, and the janitor passes by."""
    async with AsyncExitStack() as hosts:
        a, b = MemorySandboxes(), MemorySandboxes(1)
        taken = await b.provision(exam(place))
        await hosts.enter_async_context(host(place, "b", b))
        async with host(place, "a", a):
            spec = await place.plan(box_task(), "sleeper")
            handle = await place.start(spec, HURRIED)
            await until(lambda: len(a.executions) == 2)
        await b.release(taken)
        await handle.result()
        return {"episode": (handle.id, None), "pass": await clean_up(place)}


async def host_lost_while_closing(place: Arena) -> Runs:
    """Any worker judges the episode by what was kept."""
    async with AsyncExitStack() as hosts:
        a, b = MemorySandboxes(), MemorySandboxes(1)
        await b.provision(exam(place))
        await hosts.enter_async_context(host(place, "b", b))
        async with host(place, "a", a):
            spec = await place.plan(box_task(), "writer")
            place.world.gates["seal"].shut()
            handle = await place.start(spec, HURRIED)
            await place.world.gates["seal"].reached.wait()
        place.world.gates["seal"].open()
        await handle.result()
        return handle.id.removeprefix("episode/")


async def host_slow(place: Arena) -> Runs:
    """Its worker is away, and its signs of life go on: it is given its work again."""
    a, b = MemorySandboxes(), MemorySandboxes(1)
    await b.provision(exam(place))
    async with host(place, "b", b):
        a.started.shut()
        async with host(place, "a", a):
            spec = await place.plan(box_task(), "writer")
            handle = await place.start(spec, HURRIED)
            await a.started.reached.wait()
        for _ in range(10):
            beat = HostBeat(host="a", task_queue=place.queue, capacity=Capacity(slots=1, free=0))
            await place.records.beat(beat)
            await asyncio.sleep(0.2)
        a.started.open()
        async with host(place, "a", a):
            await handle.result()
    return spec.episode_id


async def sandbox_lost_for_good(place: Arena) -> Runs:
    """The task asks for an end where its sandbox is lost."""
    spec = await place.plan(box_task(on_loss="environment_error"), "sleeper")
    await place.start(spec, Tuning(slice_turns=1, heartbeat_s=2))
    await until(lambda: len(place.sandboxes.executions) == 2)
    place.sandboxes.lose(spec.episode_id)
    return spec.episode_id


KINDS: tuple[Callable[[Arena], Awaitable[Runs]], ...] = (
    janitor_finds_nothing,
    janitor_reclaims,
    janitor_collects_a_sandbox,
    janitor_fails,
    janitor_cannot_do_all,
    sandbox_lost_for_good,
)

BY_THEMSELVES: tuple[Callable[[Arena], Awaitable[Runs]], ...] = (host_lost, host_lost_while_closing, host_slow)
"""These bring workers of their own."""
