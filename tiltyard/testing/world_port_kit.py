"""What every ``World`` must do, wherever its engine is: the conformance kit of the port.

Subclass ``WorldPortKit`` in a test module and give it a ``world`` fixture that serves the tally world.
"""

import asyncio

import pytest

from schemas.base import JsonObject, JsonValue
from schemas.fault import Fault
from schemas.world import DeliveryReply, DrainReport, Lease, TemplateRef
from tiltyard.errors import BadInput, DeliveryConflict, LateWrite, NotPristine
from tiltyard.ports import World
from tiltyard.testing.engine_bench import delivery_request, lease_request
from tiltyard.testing.fork_checks import anonymous_past

STRANGE: JsonValue = [1, 1.0, True, -0.0, 1e22, 5e-324, 0.1 + 0.2, 10**22 + 1, None, "", "é\u2028\x00", {}]
"""What is easily read otherwise than it was written."""

DEEP: JsonObject = {}
for _ in range(220):
    DEEP = {"deeper": DEEP}


async def add(world: World, lease: Lease, delivery_id: str, amount: int = 1) -> DeliveryReply:
    return await world.call(delivery_request(lease, delivery_id, "add", name="apples", amount=amount))


async def give_back(world: World, lease: Lease) -> bool:
    await world.seal(lease.namespace, lease.generation)
    await world.drain(lease.namespace, lease.generation)
    return await world.recycle(lease.namespace, lease.generation)


def sent_as(lease: Lease, turn: int) -> str:
    return f"{lease.episode_id}/{lease.generation}/{turn}/0"


async def sent(world: World, lease: Lease, turn: int, amount: int = 1) -> DeliveryReply:
    """An episode's call of a turn: at the first one something is put off, and then apples are added."""
    tool, arguments = TURNS.get(turn, ("add", {"name": "apples", "amount": amount}))
    return await world.call(delivery_request(lease, sent_as(lease, turn), tool, **arguments))


TURNS: dict[int, tuple[str, JsonObject]] = {
    0: ("add_later", {"name": "pears", "after_s": 60, "operation_id": "op"})
}


class WorldPortKit:
    """The tests."""

    async def test_tools_are_described_with_the_engine_s_own(self, world: World) -> None:
        tools = {tool.name: tool for tool in await world.describe("tally")}
        assert {"add", "read", "wait", "get_receipt"} <= tools.keys()
        assert tools["add"].writes
        with pytest.raises(BadInput, match="tally") as caught:
            await world.describe("atlantis")
        assert caught.value.field == "world"

    async def test_the_same_owner_gets_the_same_lease_and_another_one_another(self, world: World) -> None:
        first = await world.lease(lease_request("ep-1"))
        assert await world.lease(lease_request("ep-1")) == first
        second = await world.lease(lease_request("ep-2"))
        assert second.namespace != first.namespace
        assert second.state_digest == first.state_digest
        assert await world.leases() == (first, second)
        with pytest.raises(BadInput, match="ep-1 holds") as caught:
            await world.lease(lease_request("ep-1", seed=1))
        assert caught.value.field == "owner"

    async def test_bad_lease_requests_name_the_field(self, world: World) -> None:
        bad = {
            "world": lease_request(world="atlantis"),
            "tools": lease_request(tools=("add", "subtract")),
            "inside_tools": lease_request(inside_tools=("subtract",)),
            "faults": lease_request(faults=(Fault(tool="subtract", kind="commit_then_drop"),)),
            "template.name": lease_request(template=TemplateRef(name="none")),
            "template.params.size": lease_request(template=TemplateRef(params={"size": -1})),
        }
        for field, request in bad.items():
            with pytest.raises(BadInput) as caught:
                await world.lease(request)
            assert caught.value.field == field
            assert caught.value.fix
        assert await world.leases() == ()

    async def test_a_delivery_takes_effect_once(self, world: World) -> None:
        lease = await world.lease(lease_request())
        replies = await asyncio.gather(*(add(world, lease, "d1") for _ in range(4)))
        assert len(set(map(DeliveryReply.model_dump_json, replies))) == 1
        assert (replies[0].committed, replies[0].shown.content) == (
            True,
            {"name": "apples", "total": 1, "amounts": [1]},
        )
        with pytest.raises(DeliveryConflict):
            await add(world, lease, "d1", amount=2)

    async def test_nothing_takes_effect_after_the_seal(self, world: World) -> None:
        lease = await world.lease(lease_request())
        await add(world, lease, "d1")
        for _ in range(2):
            await world.seal(lease.namespace, lease.generation)
        for delivery_id in ("d1", "d2", "d2"):
            with pytest.raises(LateWrite, match=delivery_id):
                await add(world, lease, delivery_id)
        facts = await world.facts(lease.namespace, lease.generation, ["tallies"])
        assert [one.delivery_id for one in facts.deliveries] == ["d1"]
        assert [(late.delivery_id, late.current_generation) for late in facts.late] == [
            ("d1", lease.generation + 1),
            ("d2", lease.generation + 1),
        ]
        assert [row.key for row in facts.initial] == ["apples", "pears"]
        assert [change.after for change in facts.changes] == [{"name": "apples", "total": 1, "amounts": [1]}]

    async def test_a_sandbox_s_calls_are_taken_from_its_current_incarnation_alone(self, world: World) -> None:
        lease = await world.lease(lease_request(inside_tools=("add",)))

        async def inside(delivery_id: str, incarnation: int, tool: str = "add") -> DeliveryReply:
            request = delivery_request(lease, delivery_id, tool, name="apples")
            return await world.call(request.model_copy(update={"incarnation": incarnation}))

        with pytest.raises(LateWrite, match="incarnation"):
            await inside("i1", 1)
        for incarnation in (1, 2, 2, 1):
            await world.admit(lease.namespace, lease.generation, incarnation)
        first = await inside("i2", 2)
        assert first.committed
        for _ in range(2):
            with pytest.raises(LateWrite, match="incarnation"):
                await inside("i3", 1)
        with pytest.raises(LateWrite):
            await inside("i2", 1)
        assert await inside("i2", 2) == first
        assert (await add(world, lease, "d1")).committed, "the agent's own calls have no incarnation"
        refused = await inside("i4", 2, "read")
        assert (refused.shown.code, refused.shown.message[-14:]) == ("unknown_tool", "use one of add")
        await world.seal(lease.namespace, lease.generation)
        for incarnation in (2, 3):
            with pytest.raises(LateWrite):
                await world.admit(lease.namespace, lease.generation, incarnation)
        facts = await world.facts(lease.namespace, lease.generation, [])
        assert [one.delivery_id for one in facts.deliveries] == ["i2", "d1", "i4"]
        refused_from = [(late.delivery_id, late.incarnation, late.current_incarnation) for late in facts.late]
        assert refused_from == [("i1", 1, 0), ("i2", 1, 2), ("i3", 1, 2)]

    async def test_a_drain_cancels_what_is_pending_and_says_the_same_again(self, world: World) -> None:
        lease = await world.lease(lease_request())
        with pytest.raises(BadInput, match="seal"):
            await world.drain(lease.namespace, lease.generation)
        await world.call(delivery_request(lease, "d1", "add_later", name="apples", after_s=60))
        await world.seal(lease.namespace, lease.generation)
        report = await world.drain(lease.namespace, lease.generation)
        assert report == DrainReport(jobs_found=1, jobs_cancelled=1)
        assert await world.drain(lease.namespace, lease.generation) == report
        facts = await world.facts(lease.namespace, lease.generation, [])
        assert [job.state for job in facts.jobs] == ["cancelled"]
        assert facts.changes == ()

    async def test_facts_need_the_seal(self, world: World) -> None:
        lease = await world.lease(lease_request())
        with pytest.raises(BadInput, match="seal it first"):
            await world.facts(lease.namespace, lease.generation, [])
        with pytest.raises(BadInput) as caught:
            await world.facts(lease.namespace, lease.generation + 1, [])
        assert caught.value.field == "generation"

    async def test_a_namespace_comes_back_pristine_under_a_new_generation(self, world: World) -> None:
        first = await world.lease(lease_request("ep-1"))
        await add(world, first, "d1")
        assert await give_back(world, first)
        assert await world.leases() == ()
        second = await world.lease(lease_request("ep-2"))
        assert (second.namespace, second.state_digest) == (first.namespace, first.state_digest)
        assert second.generation > first.generation + 1
        assert (await add(world, second, "d1")).first == 1
        with pytest.raises(LateWrite):
            await add(world, first, "d9")
        facts_of = await world.call(delivery_request(second, "d2", "read", name="apples"))
        assert facts_of.shown.content == {"name": "apples", "total": 1, "amounts": [1]}

    async def test_calls_that_mean_another_generation_do_nothing(self, world: World) -> None:
        first = await world.lease(lease_request("ep-1"))
        assert await give_back(world, first)
        second = await world.lease(lease_request("ep-2"))
        await world.seal(first.namespace, first.generation)
        assert await world.drain(first.namespace, first.generation) == DrainReport()
        assert await world.recycle(first.namespace, first.generation)
        await world.quarantine(first.namespace, first.generation, "mistaken")
        assert (await add(world, second, "d1")).committed
        for call in (world.seal, world.drain, world.recycle):
            with pytest.raises(BadInput, match="no namespace"):
                await call("ns-999999", 1)

    async def test_a_namespace_that_was_not_drained_is_never_used_again(self, world: World) -> None:
        first = await world.lease(lease_request("ep-1"))
        await world.seal(first.namespace, first.generation)
        assert not await world.recycle(first.namespace, first.generation)
        assert not await world.recycle(first.namespace, first.generation)
        assert await world.leases() == ()
        assert (await world.lease(lease_request("ep-2"))).namespace != first.namespace

    async def test_a_quarantine_ends_the_lease(self, world: World) -> None:
        first = await world.lease(lease_request("ep-1"))
        for _ in range(2):
            await world.quarantine(first.namespace, first.generation, "unknown outcome")
        with pytest.raises(LateWrite):
            await add(world, first, "d1")
        assert not await world.recycle(first.namespace, first.generation)
        assert (await world.lease(lease_request("ep-1"))).namespace != first.namespace

    async def test_a_lease_begins_with_the_past_of_another_and_goes_on_by_itself(self, world: World) -> None:
        """Two forks of one moment at once, each asked for twice at once, and a fork of a fork."""
        parent = await world.lease(lease_request("ep-1"))
        replies = [await sent(world, parent, turn) for turn in range(3)]
        past = await world.so_far(parent.namespace, parent.generation)
        assert (past.episode_id, past.generation, len(past.deliveries)) == ("ep-1", parent.generation, 3)
        asked = [lease_request(name) for name in ("ep-2", "ep-3", "ep-2", "ep-3")]
        second, third, *again = await asyncio.gather(*(world.lease(request, past) for request in asked))
        assert again == [second, third]
        assert second.past == third.past != parent.past == ""
        grandchild = await world.lease(
            lease_request("ep-4"), await world.so_far(second.namespace, second.generation)
        )
        assert (await sent(world, parent, 3, amount=9)).shown.content != replies[2].shown.content
        for fork in (second, third, grandchild):
            assert [(await sent(world, fork, turn)).shown for turn in range(3)] == [one.shown for one in replies]
            reply = await sent(world, fork, 3)
            assert reply.shown.content == {"name": "apples", "total": 3, "amounts": [1, 1, 1]}
            assert (reply.delivery_id, reply.first) == (sent_as(fork, 3), replies[2].last + 1)
        for lease in (parent, second, third, grandchild):
            assert await give_back(world, lease)
        assert await world.leases() == ()

    async def test_a_past_that_cannot_be_begun_with_is_refused_by_name(self, world: World) -> None:
        parent = await world.lease(lease_request("ep-1"))
        await sent(world, parent, 0)
        past = await world.so_far(parent.namespace, parent.generation)
        opened = past.deliveries[0].model_copy(update={"reply": None})
        bad = {
            "template": (lease_request("ep-2", template=TemplateRef(name="jobs")), past),
            "past": (lease_request("ep-2"), past.model_copy(update={"deliveries": (opened,)})),
            "owner": (lease_request("ep-1"), past),
        }
        for field, (request, given) in bad.items():
            with pytest.raises(BadInput) as caught:
                await world.lease(request, given)
            assert caught.value.field == field
            assert caught.value.fix
        assert await world.leases() == (parent,)
        assert await give_back(world, parent)
        with pytest.raises(BadInput) as caught:
            await world.so_far(parent.namespace, parent.generation)
        assert caught.value.field == "generation"

    async def test_arguments_that_cannot_be_recorded_are_refused_by_name(self, world: World) -> None:
        lease = await world.lease(lease_request())
        arguments: list[JsonObject] = [DEEP, {"name": "\ud800"}, {"amount": 10**5_000}]
        for number, bad in enumerate(arguments):
            with pytest.raises(BadInput) as caught:
                await world.call(delivery_request(lease, f"d{number}", "add", **bad))
            assert caught.value.field == "arguments"

    async def test_errors_that_are_not_the_caller_s_keep_their_type(self, broken_world: World) -> None:
        lease = await broken_world.lease(lease_request("ep-1"))
        await broken_world.call(delivery_request(lease, "d1", "scribble", name="apples"))
        with pytest.raises(NotPristine, match="changed in memory"):
            await broken_world.lease(lease_request("ep-2"))

    async def test_large_episodes_come_whole(self, world: World) -> None:
        lease = await world.lease(lease_request())
        for number in range(3):
            name = f"{number}" + "é" * 10
            await world.call(delivery_request(lease, f"d{number}", "add", name=name, filler="x" * 900_000))
            await world.call(delivery_request(lease, f"e{number}", "add", name=name))
        await world.seal(lease.namespace, lease.generation)
        facts = await world.facts(lease.namespace, lease.generation, ["tallies"])
        assert len(facts.deliveries) == 6
        assert len(facts.changes) == 3

    async def test_large_pasts_are_taken_over_whole(self, world: World) -> None:
        """More than a message of gRPC may have where nobody says otherwise, and not a digit different."""
        parent = await world.lease(lease_request("ep-1"))
        for turn in range(5):
            filler: JsonObject = {"filler": "x" * 900_000, "strange": STRANGE}
            request = delivery_request(parent, sent_as(parent, turn), "add", name="é" * 10, **filler)
            await world.call(request)
        past = await world.so_far(parent.namespace, parent.generation)
        fork = await world.lease(lease_request("ep-2"), past)
        theirs = await world.so_far(fork.namespace, fork.generation)
        assert anonymous_past(theirs) == anonymous_past(past)
        assert len(past.deliveries) == 5
