"""Every mishap happens as often as asked, does what it says, and is counted."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any, TypeVar

import pytest

from schemas.world import DeliveryReply, DeliveryRequest, Lease
from tiltyard.errors import LateWrite, WorldUnreachable
from tiltyard.testing.engine_bench import delivery_request, lease_request
from tiltyard.testing.fork_checks import anonymous_past
from tiltyard.testing.local_world import LocalWorld
from tiltyard.testing.lossy_world import LossyWorld, Rates
from tiltyard.testing.memory_worlds import MemoryWorlds
from tiltyard.testing.tally_world import TALLY
from tiltyard.worlds.engine import Engine

T = TypeVar("T")

NONE: dict[str, Any] = {
    "lose_request": 0.0,
    "lose_reply": 0.0,
    "delay": 0.0,
    "duplicate": 0.0,
    "late_duplicate": 0.0,
}


class Watched(LocalWorld):
    """Counts what arrives."""

    def __init__(self) -> None:
        super().__init__(Engine({TALLY.name: TALLY}, MemoryWorlds()))
        self.arrived: Counter[str] = Counter()

    async def call(self, request: DeliveryRequest) -> DeliveryReply:
        self.arrived["call"] += 1
        return await super().call(request)


class Answers(Watched):
    """A world that answers a repeat in another way: what must never happen."""

    async def call(self, request: DeliveryRequest) -> DeliveryReply:
        reply = await super().call(request)
        return reply.model_copy(update={"now_s": reply.now_s + self.arrived["call"]})


async def _no_sleep(seconds: float) -> None:
    await asyncio.sleep(0)


def lossy(world: Watched, seed: int = 1, **rates: Any) -> LossyWorld:
    return LossyWorld(world, Random(seed), Rates(**(NONE | rates)), sleep=_no_sleep)


async def leased(world: Watched) -> Lease:
    return await world.lease(lease_request())


def add(lease: Lease, delivery_id: str = "d-1") -> DeliveryRequest:
    return delivery_request(lease, delivery_id, "add", name="apples", amount=1)


async def total(world: Watched, lease: Lease) -> int:
    reply = await world.call(delivery_request(lease, "look", "read", name="apples"))
    content = reply.shown.content
    return int(str(content["total"])) if isinstance(content, dict) else 0


async def test_without_mishaps_everything_passes() -> None:
    world = Watched()
    quiet = lossy(world)
    lease = await quiet.lease(lease_request())
    assert await quiet.leases() == (lease,)
    assert {tool.name for tool in await quiet.describe("tally")} >= {"add"}
    assert (await quiet.call(add(lease))).committed
    await quiet.seal(lease.namespace, lease.generation)
    assert (await quiet.drain(lease.namespace, lease.generation)).empty
    facts = await quiet.facts(lease.namespace, lease.generation, ())
    assert len(facts.deliveries) == 1
    assert await quiet.recycle(lease.namespace, lease.generation)
    again = await quiet.lease(lease_request("ep-2"))
    await quiet.quarantine(again.namespace, again.generation, "a test")
    assert quiet.injected == Counter()


async def test_a_lost_request_never_arrives() -> None:
    world = Watched()
    lease, unlucky = await leased(world), lossy(world, lose_request=1)
    with pytest.raises(WorldUnreachable, match="request of call was lost"):
        await unlucky.call(add(lease))
    assert world.arrived["call"] == 0
    assert unlucky.injected == {"lose_request": 1}


async def test_a_lost_reply_is_of_a_call_that_took_effect() -> None:
    world = Watched()
    lease, unlucky = await leased(world), lossy(world, lose_reply=1)
    with pytest.raises(WorldUnreachable, match="reply of call was lost"):
        await unlucky.call(add(lease))
    assert await total(world, lease) == 1


async def test_a_duplicate_arrives_twice_and_takes_effect_once() -> None:
    world = Watched()
    lease, unlucky = await leased(world), lossy(world, duplicate=1)
    await unlucky.call(add(lease))
    assert (world.arrived["call"], await total(world, lease), unlucky.differing) == (2, 1, 0)


async def test_duplicates_that_are_answered_differently_are_counted() -> None:
    world = Answers()
    lease, unlucky = await leased(world), lossy(world, duplicate=1)
    await unlucky.call(add(lease))
    assert unlucky.differing == 1


async def test_a_late_duplicate_may_come_after_the_seal_and_is_refused() -> None:
    world = Watched()
    lease, unlucky = await leased(world), lossy(world, late_duplicate=1)
    await unlucky.call(add(lease))
    await world.seal(lease.namespace, lease.generation)
    await unlucky.settled()
    assert unlucky.late == {"LateWrite": 1}
    assert world.arrived["call"] == 2
    facts = await world.facts(lease.namespace, lease.generation, ())
    assert len(facts.deliveries) == 1
    with pytest.raises(LateWrite):
        await world.call(add(lease, "d-2"))


async def test_a_late_duplicate_of_a_lost_request_is_its_first_arrival() -> None:
    world = Watched()
    lease, unlucky = await leased(world), lossy(world, late_duplicate=1, lose_request=1)
    with pytest.raises(WorldUnreachable):
        await unlucky.call(add(lease))
    await unlucky.settled()
    assert unlucky.late == {"accepted": 1}
    assert await total(world, lease) == 1


async def test_late_duplicates_on_their_way_are_dropped_at_the_end() -> None:
    world = Watched()
    lease = await leased(world)
    unlucky = LossyWorld(world, Random(1), Rates(**(NONE | {"late_duplicate": 1.0, "late_s": (600, 600)})))
    await unlucky.call(add(lease))
    await unlucky.aclose()
    assert (world.arrived["call"], unlucky.late) == (1, Counter())


async def test_a_lease_is_not_sent_late() -> None:
    world = Watched()
    unlucky = lossy(world, late_duplicate=1)
    await unlucky.lease(lease_request())
    await unlucky.settled()
    assert unlucky.injected == Counter()


@pytest.mark.parametrize("mishap", ["lose_request", "lose_reply", "duplicate"])
async def test_a_lease_that_is_sent_until_it_is_heard_has_taken_its_past_over_once(mishap: str) -> None:
    world = Watched()
    parent = await leased(world)
    await world.call(add(parent, "ep-1/1/0/0"))
    past = await world.so_far(parent.namespace, parent.generation)
    unlucky = lossy(world, 1, **{mishap: 0.7})
    fork = await _until_heard(lambda: unlucky.lease(lease_request("ep-2"), past))
    told = await _until_heard(lambda: unlucky.so_far(fork.namespace, fork.generation))
    assert unlucky.injected[mishap] > 0
    assert anonymous_past(told) == anonymous_past(past)
    assert await world.leases() == (parent, fork)


async def _until_heard(send: Callable[[], Awaitable[T]]) -> T:
    while True:
        try:
            return await send()
        except WorldUnreachable:
            continue


async def _run(seed: int) -> tuple[Counter[str], list[bool]]:
    world = Watched()
    lease = await leased(world)
    unlucky = lossy(world, seed, lose_request=0.2, lose_reply=0.2, delay=0.2, duplicate=0.2, late_duplicate=0.2)
    heard = []
    for n in range(300):
        try:
            await unlucky.call(add(lease, f"d-{n}"))
        except WorldUnreachable:
            heard.append(False)
        else:
            heard.append(True)
    await unlucky.settled()
    return unlucky.injected, heard


async def test_the_same_seed_gives_the_same_mishaps_at_the_asked_rate() -> None:
    injected, heard = await _run(7)
    assert (injected, heard) == await _run(7)
    assert heard != (await _run(8))[1]
    assert all(30 <= injected[name] <= 90 for name in NONE)


@pytest.mark.parametrize("name", NONE)
def test_a_rate_is_a_probability(name: str) -> None:
    wrong: dict[str, Any] = {name: 1.5}
    with pytest.raises(ValueError, match=f"{name}: a probability"):
        Rates(**wrong)
