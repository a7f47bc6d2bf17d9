"""I1 on the wire: the server is killed with SIGKILL between receiving a call and replying to it."""

import asyncio
import signal
import sys
import tempfile
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from infra.rpc.client import WorldClient
from schemas.base import JsonValue
from schemas.world import DeliveryReply
from tiltyard.errors import WorldUnreachable
from tiltyard.testing.engine_bench import delivery_request, lease_request
from tiltyard.testing.fork_checks import anonymous_past

DOOMED = Path(__file__).with_name("doomed_server.py")


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="ty-") as name:
        yield Path(name)


@asynccontextmanager
async def running(client: WorldClient, folder: Path, nth: int, moment: str) -> AsyncIterator[Process]:
    """A server that answers, and that is gone afterwards."""
    server = await asyncio.create_subprocess_exec(sys.executable, str(DOOMED), str(folder), str(nth), moment)
    try:
        while not (folder / "w.sock").exists() or not await answers(client):
            assert server.returncode is None
            await asyncio.sleep(0.05)
        yield server
    finally:
        if server.returncode is None:
            server.kill()
        await server.wait()


async def answers(client: WorldClient) -> bool:
    try:
        await client.describe("tally")
    except WorldUnreachable:
        return False
    return True


CALLS: dict[str, tuple[str, dict[str, JsonValue]]] = {
    "d1": ("add_later", {"name": "apples", "after_s": 10}),
    "d2": ("wait", {"seconds": 60}),
    "d3": ("add", {"name": "apples", "amount": 5, "operation_id": "op"}),
}


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize(("nth", "dying"), [(4, "d2"), (6, "d3")], ids=["in a wait", "in a write"])
async def test_the_same_delivery_sent_again_finds_or_makes_the_one_effect(
    folder: Path, moment: str, nth: int, dying: str
) -> None:
    """Transactions: 1 lease, 2 d1, 3 to 5 d2 (opened, its job, closed), 6 d3."""
    async with WorldClient(folder / "w.sock") as client:

        async def call(delivery_id: str) -> DeliveryReply:
            tool, arguments = CALLS[delivery_id]
            return await client.call(delivery_request(lease, delivery_id, tool, **arguments))

        async with running(client, folder, nth, moment) as server:
            lease = await client.lease(lease_request())
            for before in ("d1", "d2"):
                if before < dying:
                    await call(before)
            with pytest.raises(WorldUnreachable):
                await call(dying)
            assert await server.wait() == -signal.SIGKILL
        async with running(client, folder, 0, "never"):
            replies = [await call(delivery_id) for delivery_id in CALLS]
            await client.seal(lease.namespace, lease.generation)
            facts = await client.facts(lease.namespace, lease.generation, [])
    assert [reply.now_s for reply in replies] == [1, 61, 62]
    assert replies[2].shown.content == {"name": "apples", "total": 6, "amounts": [1, 5]}
    assert [(row.cause, row.after) for row in facts.ledger if not row.system] == [
        ("job-000001", {"name": "apples", "total": 1, "amounts": [1]}),
        ("d3", {"name": "apples", "total": 6, "amounts": [1, 5]}),
    ]


@pytest.mark.parametrize("moment", ["before", "after"])
async def test_a_lease_that_is_sent_again_has_taken_the_past_over_once(folder: Path, moment: str) -> None:
    """Transactions: 1 the parent's lease, 2 its call, 3 its past, 4 the fork's lease."""
    async with WorldClient(folder / "w.sock") as client:
        async with running(client, folder, 4, moment) as server:
            parent = await client.lease(lease_request("ep-1"))
            await client.call(delivery_request(parent, "ep-1/1/0/0", "add", name="apples", operation_id="op"))
            past = await client.so_far(parent.namespace, parent.generation)
            with pytest.raises(WorldUnreachable):
                await client.lease(lease_request("ep-2"), past)
            assert await server.wait() == -signal.SIGKILL
        async with running(client, folder, 0, "never"):
            fork = await client.lease(lease_request("ep-2"), past)
            assert await client.leases() == (parent, fork)
            theirs = await client.so_far(fork.namespace, fork.generation)
            next_one = await client.call(delivery_request(fork, "ep-2/1/1/0", "add", name="apples"))
    assert anonymous_past(theirs) == anonymous_past(past)
    assert next_one.shown.content == {"name": "apples", "total": 2, "amounts": [1, 1]}
