"""Several hosts: a slow one is waited for, a lost one costs no episode."""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client

from schemas.decision import Decision
from schemas.episode import End, EpisodeSpec, Validity
from schemas.host import ELSEWHERE, Capacity, HostBeat, HostRecord, Permit
from schemas.sandbox import SandboxOrder
from schemas.status import SandboxHolding
from schemas.view import View
from tests.workflow.arena import Arena, Handle, arena, calls, until
from tests.workflow.boxes import WHOLE, box_task, evidence_of, said, sleeper, writer
from tests.workflow.two_hosts import HURRIED, exam, host
from tiltyard.ports import Records
from tiltyard.testing.memory_sandboxes import MemorySandboxes
from workers.assembly import Parts

POLICIES = {"writer": writer, "sleeper": sleeper}


async def test_a_slow_host_is_given_its_work_again(client: Client, tmp_path: Path) -> None:
    await _waits_for_a_slow_host(client, tmp_path, lambda parts: parts)


class SaysThatAllAreLost:
    """Records of hosts as they would be if nobody looked at them."""

    def __init__(self, records: Records) -> None:
        self._records = records

    def __getattr__(self, name: str) -> Any:
        return getattr(self._records, name)

    async def hosts(self, task_queue: str) -> tuple[HostRecord, ...]:
        found = await self._records.hosts(task_queue)
        return tuple(one.model_copy(update={"silent_s": 1e6}) for one in found)


async def test_a_host_that_is_called_lost_without_a_look_is_noticed(client: Client, tmp_path: Path) -> None:
    def careless(parts: Parts) -> Parts:
        return replace(parts, records=SaysThatAllAreLost(parts.records))

    with pytest.raises(AssertionError):
        await _waits_for_a_slow_host(client, tmp_path, careless)


async def _waits_for_a_slow_host(client: Client, home: Path, others: Callable[[Parts], Parts]) -> None:
    """Its worker is away for longer than the outage limit, and its signs of life go on."""
    async with arena(client, POLICIES, home) as place:
        a, b = MemorySandboxes(), MemorySandboxes(1)
        await b.provision(exam(place))
        async with host(place, "b", b, others):
            a.started.shut()
            async with host(place, "a", a):
                spec = await place.plan(box_task(), "writer")
                handle = await place.start(spec, HURRIED)
                await a.started.reached.wait()
            for _ in range(15):
                await place.records.beat(
                    HostBeat(host="a", task_queue=place.queue, capacity=Capacity(slots=1, free=0))
                )
                await asyncio.sleep(0.2)
            a.started.open()
            async with host(place, "a", a, others):
                await handle.result()
        evidence = await evidence_of(place, spec)
        assert evidence.sandbox is not None
        assert (evidence.sandbox.facts.incarnation, said(evidence)) == (1, WHOLE)


async def _in_second_command(
    place: Arena, sandboxes: MemorySandboxes, **plan: object
) -> tuple[EpisodeSpec, Handle]:
    """An episode whose first turn's files are kept, and whose second command goes on for ever."""
    spec = await place.plan(box_task(**plan), "sleeper")
    handle = await place.start(spec, HURRIED)
    await until(lambda: len(sandboxes.executions) == 2)
    return spec, handle


@pytest.mark.parametrize("alone", [False, True], ids=["two from the start", "the other came later"])
async def test_an_episode_goes_on_elsewhere_when_its_host_is_lost_and_what_is_left_there_is_ended(
    client: Client, tmp_path: Path, alone: bool
) -> None:
    """A host that is alone is reached by the queue of all; whoever comes later must not take what is not his."""
    async with arena(client, POLICIES, tmp_path) as place, AsyncExitStack() as later:
        a, b = MemorySandboxes(), MemorySandboxes(1)
        taken = await b.provision(exam(place))
        if not alone:
            await later.enter_async_context(host(place, "b", b))
        async with host(place, "a", a):
            spec, handle = await _in_second_command(place, a)
            held: SandboxHolding = await handle.query("sandbox", result_type=SandboxHolding)
            assert held.place.permit == Permit(host="a", alone=alone)
            if alone:
                await later.enter_async_context(host(place, "b", b))
        await b.release(taken)
        await handle.result()
        result = await place.outcome(spec)
        assert (result.end, result.validity) == (End.SUBMITTED, Validity.VALID)
        evidence = await evidence_of(place, spec)
        assert said(evidence)[1] == "sandbox_lost"
        assert evidence.sandbox is not None
        assert evidence.sandbox.facts.incarnation == 2
        assert [one.path for one in evidence.sandbox.changes] == ["one.txt"]
        assert [one.ref.incarnation for one in await a.sandboxes()] == [1], "nobody could ask it"
        async with host(place, "a", a):
            assert (await place.clean_up()).discarded == 1
        assert (await a.sandboxes(), await b.sandboxes()) == ((), ())


async def test_whoever_comes_later_passes_on_what_is_not_his(client: Client, tmp_path: Path) -> None:
    """The worker of a host that was alone vanishes; the other one is given its slice, and leaves it."""
    async with arena(client, POLICIES, tmp_path) as place:
        a, b = MemorySandboxes(), MemorySandboxes()
        a.started.shut()
        async with host(place, "a", a):
            spec = await place.plan(box_task(), "writer")
            handle = await place.start(spec, HURRIED.model_copy(update={"outage_s": 3600}))
            await a.started.reached.wait()
        async with host(place, "b", b):
            await until(lambda: _was_passed_on(handle))
            a.started.open()
            async with host(place, "a", a):
                await handle.result()
        evidence = await evidence_of(place, spec)
        assert evidence.sandbox is not None
        assert (evidence.sandbox.facts.incarnation, said(evidence)) == (1, WHOLE)


async def _was_passed_on(handle: Handle) -> bool:
    failed = [event.activity_task_failed_event_attributes for event in (await handle.fetch_history()).events]
    return any(one.failure.application_failure_info.type == ELSEWHERE for one in failed)


async def test_a_task_may_rather_end_when_its_host_is_lost(client: Client, tmp_path: Path) -> None:
    async with arena(client, POLICIES, tmp_path) as place:
        a = MemorySandboxes()
        async with host(place, "b", MemorySandboxes(0)):
            async with host(place, "a", a):
                spec, handle = await _in_second_command(place, a, on_loss="environment_error")
            await handle.result()
            result = await place.outcome(spec)
            assert (result.end, result.reason) == (End.ENVIRONMENT_ERROR, "its host is lost")


async def test_when_no_host_is_left_the_episode_ends_in_the_end(client: Client, tmp_path: Path) -> None:
    async with arena(client, POLICIES, tmp_path) as place:
        a = MemorySandboxes()
        async with host(place, "b", MemorySandboxes(0)):
            async with host(place, "a", a):
                spec = await place.plan(box_task(), "sleeper")
                handle = await place.start(spec, HURRIED.model_copy(update={"patience_s": 3}))
                await until(lambda: len(a.executions) == 2)
            await handle.result()
            assert (await place.outcome(spec)).end is End.ENVIRONMENT_ERROR


async def test_a_host_that_is_lost_after_the_last_turn_costs_nothing_that_was_kept(
    client: Client, tmp_path: Path
) -> None:
    async with arena(client, POLICIES, tmp_path) as place:
        a = MemorySandboxes()
        async with host(place, "b", MemorySandboxes(0)):
            async with host(place, "a", a):
                spec = await place.plan(box_task(), "writer")
                handle = await place.start(spec, HURRIED)
                place.world.gates["seal"].shut()
                await place.world.gates["seal"].reached.wait()
            place.world.gates["seal"].open()
            await handle.result()
        result = await place.outcome(spec)
        assert (result.end, result.validity) == (End.SUBMITTED, Validity.VALID)
        evidence = await evidence_of(place, spec)
        assert said(evidence) == WHOLE
        assert evidence.sandbox is not None
        assert [one.path for one in evidence.sandbox.changes] == ["notes.txt"]


async def test_a_sandbox_that_an_order_left_on_another_host_is_ended(client: Client, tmp_path: Path) -> None:
    """The worker vanished before it could say that it had made one; another host made it again, under its name."""

    async def patient(view: View) -> Decision:
        await asyncio.sleep(0 if view.turn else 3600)
        return calls("shell", command="true")

    async with arena(client, {"patient": patient}, tmp_path) as place:
        a, b = MemorySandboxes(), MemorySandboxes()
        async with host(place, "b", b):
            spec = await place.plan(box_task(), "patient")
            handle = await place.start(spec, HURRIED)
            await until(lambda: place.policies.acted.get(spec.episode_id, 0) >= 1)
            (there,) = await b.sandboxes()
            await a.provision(SandboxOrder(**there.ref.model_dump(), **there.model_dump(exclude={"ref", "state"})))
            async with host(place, "a", a):
                assert (await place.clean_up()).discarded == 1
            assert await a.sandboxes() == ()
            assert len(await b.sandboxes()) == 1, "the episode is in it"
            await place.ground.stop(spec.episode_id)
            await handle.result()


async def test_a_pass_of_the_janitor_does_not_wait_for_a_host_that_is_silent_or_lost(
    client: Client, tmp_path: Path
) -> None:
    async with arena(client, POLICIES, tmp_path) as place, host(place, "b", MemorySandboxes()):
        async with host(place, "a", MemorySandboxes()):
            assert (await place.clean_up(tuning=HURRIED)).lost_hosts == ()
        assert "the host a: does not take up work" in (await place.clean_up(tuning=HURRIED)).problems
        await asyncio.sleep(2)
        assert (await place.clean_up(tuning=HURRIED)).lost_hosts == ("a",)
