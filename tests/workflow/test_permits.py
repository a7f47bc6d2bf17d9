"""Permits: an order for a sandbox goes where there is room, and no host is given more of them than it has slots."""

import asyncio
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from temporalio.client import Client

from schemas.episode import End, Validity
from schemas.host import Capacity
from tests.workflow.arena import arena, until
from tests.workflow.boxes import GatedSandboxes, box_task, evidence_of, sleeper, writer
from tests.workflow.two_hosts import HURRIED, CountedSandboxes, exam, host

POLICIES = {"writer": writer, "sleeper": sleeper}


async def test_hosts_share_the_episodes_and_none_has_more_sandboxes_than_slots(
    client: Client, tmp_path: Path
) -> None:
    async with arena(client, POLICIES, tmp_path) as place:
        hosts = {"a": CountedSandboxes(1), "b": CountedSandboxes(2)}
        async with AsyncExitStack() as workers:
            for name, sandboxes in hosts.items():
                await workers.enter_async_context(host(place, name, sandboxes))
            results = await asyncio.gather(*(place.run(box_task(), "writer", HURRIED) for _ in range(6)))
        assert [result.end for result in results] == [End.SUBMITTED] * 6
        assert [(one.most, bool(one.made)) for one in hosts.values()] == [(1, True), (2, True)]
        assert sorted(hosts["a"].made + hosts["b"].made) == sorted(result.episode_id for result in results)
        assert [await one.sandboxes() for one in hosts.values()] == [(), ()]


async def test_an_order_is_taken_only_where_there_is_room(client: Client, tmp_path: Path) -> None:
    full, free = CountedSandboxes(1), CountedSandboxes(1)
    await _goes_where_there_is_room(client, tmp_path, full, free)


class SaysThatThereIsRoom(CountedSandboxes):
    async def capacity(self) -> Capacity:
        return Capacity(slots=1, free=1)


async def test_a_permit_that_is_offered_early_is_noticed(client: Client, tmp_path: Path) -> None:
    """An order waits on a host that has no room, while another one has."""
    with pytest.raises(AssertionError):
        await _goes_where_there_is_room(client, tmp_path, SaysThatThereIsRoom(1), CountedSandboxes(1))


async def _goes_where_there_is_room(
    client: Client, home: Path, full: CountedSandboxes, free: CountedSandboxes
) -> None:
    """An examination holds the only slot of the first host."""
    async with arena(client, POLICIES, home) as place:
        await full.provision(exam(place))
        async with host(place, "full", full), host(place, "free", free):
            for _ in range(4):
                spec = await place.plan(box_task(), "writer")
                await place.start(spec, HURRIED)
            await until(lambda: len(full.asked) > 1 or len(free.made) == 4)
        assert (full.asked, free.most) == ({"exam"}, 1)


async def test_an_order_that_no_host_has_room_for_is_given_up_in_the_end(client: Client, tmp_path: Path) -> None:
    async with arena(client, POLICIES, tmp_path) as place:
        full = CountedSandboxes(1)
        await full.provision(exam(place))
        async with host(place, "full", full):
            result = await place.run(box_task(), "writer", HURRIED.model_copy(update={"patience_s": 2}))
        assert (result.end, result.validity) == (End.ENVIRONMENT_ERROR, Validity.ENVIRONMENT)


async def test_permits_outlive_orders_that_fail_and_workers_that_vanish(client: Client, tmp_path: Path) -> None:
    async with arena(client, POLICIES, tmp_path) as place:
        sandboxes = CountedSandboxes(1)
        for _ in range(3):
            async with host(place, "a", sandboxes):  # its poll is cancelled with it
                pass
        async with host(place, "a", sandboxes):
            sandboxes.unreachable = True
            spec = await place.plan(box_task(), "writer")
            handle = await place.start(spec, HURRIED)
            await asyncio.sleep(0.5)
            sandboxes.unreachable = False
            await handle.result()
            assert (await place.run(box_task(), "writer", HURRIED)).end is End.SUBMITTED
        assert (await sandboxes.capacity()).free == 1


async def test_room_that_was_lost_while_nobody_came_is_found_elsewhere(client: Client, tmp_path: Path) -> None:
    """The first host has asked for an order when it still had room."""
    async with arena(client, POLICIES, tmp_path) as place:
        full, free = CountedSandboxes(1), CountedSandboxes(1)
        async with host(place, "full", full):
            assert (await place.run(box_task(), "writer", HURRIED)).end is End.SUBMITTED
            await full.provision(exam(place))
            async with host(place, "free", free):
                assert (await place.run(box_task(), "writer", HURRIED)).end is End.SUBMITTED
        assert (len(full.made), len(free.made)) == (2, 1)


async def test_a_worker_that_vanishes_with_the_answer_finds_the_only_sandbox_again(
    client: Client, tmp_path: Path
) -> None:
    """It holds the only slot: an order that looked for room anew would wait for itself."""
    async with arena(client, POLICIES, tmp_path) as place:
        gated = GatedSandboxes(a := CountedSandboxes(1))
        gate = gated.gates["provision answered"]
        gate.shut()
        async with host(place, "a", a, lambda parts: replace(parts, sandboxes=gated)):
            spec = await place.plan(box_task(), "writer")
            handle = await place.start(spec, HURRIED)
            await gate.reached.wait()
        async with host(place, "a", a):
            await handle.result()
        evidence = await evidence_of(place, spec)
        assert evidence.sandbox is not None
        assert (evidence.sandbox.facts.incarnation, a.made) == (1, [spec.episode_id])
