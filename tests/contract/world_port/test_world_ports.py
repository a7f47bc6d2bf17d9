"""Every way to a world passes the one kit, and shows the same world."""

import asyncio
import socket
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractContextManager, asynccontextmanager
from datetime import timedelta
from pathlib import Path

import grpc
import pytest

from infra.rpc.answers import answers
from infra.rpc.channel import OPTIONS, address_of
from infra.rpc.client import WorldClient
from infra.rpc.failures import TRAILER
from infra.rpc.gen import world_pb2 as wire
from infra.rpc.gen.world_pb2_grpc import WorldStub
from infra.rpc.server import serve
from infra.stores.database import open_database
from infra.stores.world_store import SqlWorlds
from schemas.base import JsonObject, canonical
from schemas.world import Facts, Lease
from tiltyard.errors import BadInput, EnvironmentFailed, NotPristine, StackFailed, WorldUnreachable
from tiltyard.ports import World
from tiltyard.testing.caching_reader import CachingReader
from tiltyard.testing.engine_bench import delivery_request, lease_request
from tiltyard.testing.local_world import LocalWorld
from tiltyard.testing.memory_worlds import MemoryWorlds
from tiltyard.testing.tally_world import TALLY
from tiltyard.testing.world_port_kit import WorldPortKit
from tiltyard.worlds.engine import Engine
from tiltyard.worlds.store import WorldTx

WORLDS = {"tally": TALLY}


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder whose path is short enough for a socket."""
    with tempfile.TemporaryDirectory(prefix="ty-") as name:
        yield Path(name)


@asynccontextmanager
async def served(engine: Engine, folder: Path) -> AsyncIterator[World]:
    server = serve(engine, folder / "w.sock")
    async with WorldClient(folder / "w.sock") as client:
        yield client
    server.stop(None).wait()


def test_a_server_that_works_answers_and_others_do_not(folder: Path) -> None:
    path = folder / "w.sock"
    assert not answers(path, 5), "nobody is there"
    server = serve(Engine(WORLDS, MemoryWorlds()), path)
    assert answers(path, 30)
    server.stop(None).wait()
    with socket.socket(socket.AF_UNIX) as mute:
        path.unlink(missing_ok=True)
        mute.bind(str(path))
        mute.listen()
        assert not answers(path, 0.5), "it listens and says nothing"


class TestLocal(WorldPortKit):
    @pytest.fixture
    def world(self) -> World:
        return LocalWorld(Engine(WORLDS, MemoryWorlds()))

    @pytest.fixture
    def broken_world(self) -> World:
        return LocalWorld(Engine(WORLDS, MemoryWorlds(), reader=CachingReader))


class TestGrpc(WorldPortKit):
    @pytest.fixture
    async def world(self, folder: Path) -> AsyncIterator[World]:
        database = open_database(f"sqlite:///{folder}/worlds.db")
        async with served(Engine(WORLDS, SqlWorlds(database)), folder) as client:
            yield client
        database.close()

    @pytest.fixture
    async def broken_world(self, folder: Path) -> AsyncIterator[World]:
        async with served(Engine(WORLDS, MemoryWorlds(), reader=CachingReader), folder) as client:
            yield client


async def _play(world: World) -> Facts:
    lease = await world.lease(lease_request())
    calls: list[tuple[str, JsonObject]] = [
        ("add", {"name": "plums", "amount": 2, "operation_id": "op-1"}),
        ("add_later", {"name": "plums", "after_s": 30}),
        ("add_then_refuse", {"name": "plums"}),
        ("tick", {"name": "é", "every_s": 10, "times": 5}),
        ("wait", {"seconds": 35}),
        ("remove", {"name": "pears"}),
        ("get_receipt", {"operation_id": "op-1"}),
        ("names", {}),
    ]
    for number, (tool, arguments) in enumerate(calls):
        await world.call(delivery_request(lease, f"d{number}", tool, **arguments))
    await world.seal(lease.namespace, lease.generation)
    await world.drain(lease.namespace, lease.generation)
    return await world.facts(lease.namespace, lease.generation, ["tallies"])


async def test_memory_in_process_and_sqlite_behind_grpc_give_the_same_facts(folder: Path) -> None:
    local = await _play(LocalWorld(Engine(WORLDS, MemoryWorlds())))
    database = open_database(f"sqlite:///{folder}/worlds.db")
    async with served(Engine(WORLDS, SqlWorlds(database)), folder) as client:
        assert await _play(client) == local
    database.close()
    assert len(local.changes) == 3


async def test_a_server_that_is_not_there_is_unreachable(folder: Path) -> None:
    async with WorldClient(folder / "w.sock") as client:
        with pytest.raises(WorldUnreachable):
            await client.leases()


async def test_a_client_outlives_restarts_of_the_server(folder: Path) -> None:
    store = MemoryWorlds()
    async with WorldClient(folder / "w.sock") as client:
        for _ in range(3):
            server = serve(Engine(WORLDS, store), folder / "w.sock")
            lease = await _until_answered(client)
            server.stop(None).wait()
    assert lease.generation == 1


async def _until_answered(client: WorldClient) -> Lease:
    for _ in range(100):
        try:
            return await client.lease(lease_request())
        except WorldUnreachable:
            await asyncio.sleep(0.05)
    raise AssertionError("the client has not found the server again")


async def test_a_call_that_outlasts_its_time_is_unreachable_and_answered_later(folder: Path) -> None:
    store = MemoryWorlds()
    server = serve(Engine(WORLDS, store), folder / "w.sock")
    async with (
        WorldClient(folder / "w.sock") as patient,
        WorldClient(folder / "w.sock", timedelta(milliseconds=100)) as hasty,
    ):
        lease = await patient.lease(lease_request())
        with store.transaction(), pytest.raises(WorldUnreachable, match="DEADLINE_EXCEEDED"):
            await hasty.call(delivery_request(lease, "d1", "add", name="apples"))
        reply = await patient.call(delivery_request(lease, "d1", "add", name="apples"))
        assert reply.shown.content == {"name": "apples", "total": 1, "amounts": [1]}
    server.stop(None).wait()


class BrokenWorlds:
    """A store that fails at every transaction."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def transaction(self) -> AbstractContextManager[WorldTx]:
        raise self._error


@pytest.mark.parametrize(
    ("raised", "arrives"),
    [
        (WorldUnreachable("the database is locked"), WorldUnreachable),
        (EnvironmentFailed("the disk is full"), EnvironmentFailed),
        (KeyError("a bug"), EnvironmentFailed),
        (NotPristine("é" * 100_000), NotPristine),
        (BadInput("wrong", field="f" * 5_000, fix="x" * 5_000), BadInput),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else type(value).__name__,
)
async def test_errors_cross_the_wire_by_their_kind(
    raised: Exception, arrives: type[Exception], folder: Path
) -> None:
    async with served(Engine(WORLDS, BrokenWorlds(raised)), folder) as client:
        with pytest.raises(arrives) as caught:
            await client.leases()
        assert caught.type is arrives
        assert await client.describe("tally"), "the server goes on"
    assert len(str(caught.value)) > 5


def test_a_living_server_keeps_its_socket_and_a_dead_one_s_is_taken_over(folder: Path) -> None:
    engine = Engine(WORLDS, MemoryWorlds())
    server = serve(engine, folder / "w.sock")
    assert (folder / "w.sock").stat().st_mode & 0o077 == 0, "only the user may connect"
    with pytest.raises(StackFailed, match="already"):
        serve(engine, folder / "w.sock")
    server.stop(None).wait()


async def test_a_path_that_is_too_long_for_a_socket_is_said_to_be(folder: Path) -> None:
    with pytest.raises(BadInput) as caught:
        WorldClient(folder / ("x" * 100) / "w.sock")
    assert caught.value.field == "socket"


@pytest.mark.parametrize(
    ("pieces", "field"),
    [
        ([], "request"),
        ([b"{}"], "request.owner"),
        ([canonical(lease_request())], "past"),
        ([canonical(lease_request()), b'{"episode_id":"ep-1",', b'"generation":"x"}'], "past.generation"),
        ([canonical(lease_request()), b'{"episode_id":"ep-1"'], "past"),
    ],
    ids=["nothing", "no request", "no past", "another type", "cut"],
)
async def test_what_is_no_lease_with_a_past_is_refused_by_name(
    pieces: list[bytes], field: str, folder: Path
) -> None:
    async with served(Engine(WORLDS, MemoryWorlds()), folder) as client:
        with grpc.insecure_channel(address_of(folder / "w.sock"), options=OPTIONS) as channel:
            documents = (wire.Document(json=piece) for piece in pieces)
            with pytest.raises(grpc.RpcError) as caught:
                await asyncio.to_thread(WorldStub(channel).TakeOver, documents)
        assert await client.leases() == ()
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    (failure,) = [one.value for one in caught.value.trailing_metadata() if one.key == TRAILER]
    assert isinstance(failure, bytes)
    assert wire.Failure.FromString(failure).field == field
