"""A world reached from inside a sandbox, on every driver with a network of its own."""

import asyncio
import json
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

from infra.rpc.client import WorldClient
from infra.rpc.server import serve as serve_world
from infra.sandboxes.host import SandboxHost
from infra.stores.database import open_database
from infra.stores.world_store import SqlWorlds
from tests.contract.sandboxes.docker_engine import docker_host
from tests.contract.sandboxes.served_world import ServedWorld, said, serve
from tiltyard.errors import WorldUnreachable
from tiltyard.testing.gated_world import GatedWorld
from tiltyard.testing.local_world import LocalWorld
from tiltyard.testing.memory_worlds import MemoryWorlds
from tiltyard.testing.sandbox_bench import Box, SandboxBench
from tiltyard.testing.tally_world import TALLY
from tiltyard.worlds.deliveries import Deliveries
from tiltyard.worlds.engine import Engine
from tiltyard.worlds.store import Namespace

Hosting = Callable[[ServedWorld], AbstractAsyncContextManager[SandboxBench]]

TALLIES = {"tally": TALLY}

ROOT = Path(__file__).parents[3]


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """A folder whose path is short enough for a socket."""
    with tempfile.TemporaryDirectory(prefix="ty-") as name:
        yield Path(name)


def local() -> LocalWorld:
    return LocalWorld(Engine(TALLIES, MemoryWorlds()))


@pytest.fixture(params=["bubblewrap", "docker"])
def hosting(request: pytest.FixtureRequest, tmp_path: Path) -> Hosting:
    """Makes a host that serves a world, with one driver."""
    driver = request.param
    shared = request.getfixturevalue("bubblewrap" if driver == "bubblewrap" else "docker_images")

    @asynccontextmanager
    async def made(served: ServedWorld) -> AsyncIterator[SandboxBench]:
        if driver == "docker":
            async with docker_host(tmp_path, shared, worlds=served.worlds) as host:
                yield SandboxBench(host, "docker")
        else:
            async with SandboxHost({driver: shared}, tmp_path / "boxes", 2, worlds=served.worlds) as host:
                yield SandboxBench(host, driver)

    return made


async def test_a_program_calls_the_world_and_reaches_nothing_else(hosting: Hosting) -> None:
    served = await serve(local())
    async with hosting(served) as bench, served.sandbox(bench) as box:
        tools, added, read, unknown = await said(
            box,
            'print(json.dumps([call(""), call("add", name="apples", amount=2), call("read", name="apples"),'
            ' call("wait", seconds=5)]))',
            op_id="ep/1/0/0",
        )
        assert (tools[0], [tool["name"] for tool in tools[1]["tools"]]) == (200, ["add", "read"])
        assert (added[0], read[1]["total"], unknown[0]) == (200, 2, 404)
        assert await box.out("cut -d: -f1 /proc/net/dev | tail -n +3 | tr -d ' '") == "lo\n"
        assert await box.out("grep -c . /proc/net/route") == "1\n", "no route but the line of headings"
        looks = (
            "import socket\ntry: socket.create_connection((NAME, 80), 5)\n"
            "except OSError as error: print(type(error).__name__)"
        )
        for name, error in (("other.world", "gaierror"), ("127.0.0.2", "ConnectionRefusedError")):
            await box.put("look.py", looks.replace("NAME", repr(name)).encode())
            assert await box.out("python3 look.py") == f"{error}\n"
        assert await box.out("grep world /etc/hosts") == "127.0.0.1 tally.world\n127.0.0.1 looks.world\n"
    facts = await served.facts()
    assert [one.delivery_id for one in facts.deliveries] == ["ep/1/0/0/http/1", "ep/1/0/0/http/2"]
    assert {row.cause for row in facts.ledger} == {"ep/1/0/0/http/1", "ep/1/0/0/http/2"}


async def test_a_call_belongs_to_the_command_that_its_program_descends_from(hosting: Hosting) -> None:
    served = await serve(local())
    async with hosting(served) as bench, served.sandbox(bench) as box:
        later = (
            "import os, time\nwhile not os.path.exists('go'): time.sleep(0.02)\n"
            "call('add', name='late')\nopen('done', 'w').close()\n"
        )
        await box.put("calling.py", b"")
        await said(box, "print(json.dumps(call('add', name='first')))", op_id="ep/1/0/0")
        source = (await box.content("calling.py")).decode()
        await box.put("later.py", source.replace("print(json.dumps(call('add', name='first')))", later).encode())
        await box.sh("setsid python3 later.py > /dev/null 2>&1 &", op_id="ep/1/1/0")
        await box.write("go", b"", op_id="ep/1/2/0")
        await box.appears("done")
        await said(box, "print(json.dumps(call('add', name='last')))", op_id="ep/1/3/0")
    facts = await served.facts()
    assert [one.delivery_id for one in facts.deliveries] == [
        "ep/1/0/0/http/1",
        "ep/1/1/0/http/1",
        "ep/1/3/0/http/1",
    ]


async def test_an_outage_is_waited_out_and_is_not_the_command_s(hosting: Hosting) -> None:
    """The effect is there and its reply is lost for longer than the command may run."""
    served = await serve(local())
    async with hosting(served) as bench, served.sandbox(bench) as box:
        gate = served.world.gates["answering"]
        gate.failing = lambda: WorldUnreachable("away")
        asked = asyncio.create_task(said(box, "print(json.dumps(call('add', name='x')))", "ep/1/0/0", timeout_s=2))
        await gate.reached.wait()
        await asyncio.sleep(3)
        gate.failing = None
        assert (await asked)[0] == 200
        again = await box.sh("python3 calling.py", op_id="ep/1/0/0", timeout_s=2)
        assert again.world is not None
        assert again.world.outage_s > 1
    facts = await served.facts()
    assert [(one.delivery_id, one.reply and one.reply.committed) for one in facts.deliveries] == [
        ("ep/1/0/0/http/1", True)
    ]


async def test_whoever_waits_for_a_world_that_stays_away_is_told(hosting: Hosting) -> None:
    served = await serve(local())
    served.patience_s = 0.3
    async with hosting(served) as bench, served.sandbox(bench) as box:
        served.world.gates["call"].failing = lambda: WorldUnreachable("away")
        with pytest.raises(WorldUnreachable):
            await said(box, "print(json.dumps(call('add', name='x')))", op_id="ep/1/0/0")
        served.world.gates["call"].failing = None
        ended = None
        while ended is None:
            try:
                ended = await box.sh("python3 calling.py", op_id="ep/1/0/0")
            except WorldUnreachable:
                await asyncio.sleep(0.05)
        assert ended.exit_code == 0
    assert len((await served.facts()).deliveries) == 1


class AdmitsAnybody(Deliveries):
    """A sabotage: calls are taken from whichever incarnation."""

    def admits_from(self, namespace: Namespace, incarnation: int) -> bool:
        return True


async def an_old_incarnation_changes_nothing(world: LocalWorld, hosting: Hosting) -> None:
    served = await serve(world)
    async with hosting(served) as bench, served.sandbox(bench) as box:
        source = "print(json.dumps(call('add', name='x')))"
        assert (await said(box, source, op_id="ep/1/0/0"))[0] == 200
        await served.world.admit(served.lease.namespace, served.lease.generation, 2)
        assert (await said(box, source, op_id="ep/1/1/0"))[0] == 410
    facts = await served.facts()
    assert [(late.incarnation, late.current_incarnation) for late in facts.late] == [(1, 2)]
    assert len(facts.deliveries) == 1


async def test_an_old_incarnation_changes_nothing(hosting: Hosting) -> None:
    await an_old_incarnation_changes_nothing(local(), hosting)


async def test_without_the_admission_its_write_is_noticed(hosting: Hosting) -> None:
    engine = Engine(TALLIES, store := MemoryWorlds())
    engine.deliveries = AdmitsAnybody(store, engine.desk, engine.in_flight)
    with pytest.raises(AssertionError):
        await an_old_incarnation_changes_nothing(LocalWorld(engine), hosting)


async def test_nothing_is_forwarded_after_the_seal(hosting: Hosting) -> None:
    served = await serve(local())
    async with hosting(served) as bench, served.sandbox(bench) as box:
        source = (
            "import time\ncall('add', name='x')\nopen('first', 'w').close()\n"
            "while call('add', name='x')[0] == 200: pass\ntime.sleep(1000)"
        )
        await box.put("calling.py", b"")
        asking = asyncio.create_task(said(box, source, op_id="ep/1/0/0", timeout_s=60))
        await box.appears("first")
        await bench.port.seal(box.ref)
        before = len(await calls_of(served))
        drain = await bench.port.drain(box.ref)
        await asyncio.wait([asking])
        assert asking.exception() is not None
        assert drain.refused <= 1
        assert len(await calls_of(served)) - before <= 1, "what was under way at the seal has taken effect"


async def calls_of(served: ServedWorld) -> list[str]:
    """Deliveries so far. A look from the side: the namespace is not sealed."""
    engine = served.world._world.engine  # type: ignore[attr-defined]  # a LocalWorld
    with engine.deliveries._store.transaction() as tx:
        namespace = tx.namespace(served.lease.namespace)
        assert namespace is not None
        return [one.delivery_id for one in tx.deliveries(namespace.partition)]


async def test_nobody_listens_where_nothing_is_exposed(hosting: Hosting) -> None:
    served = await serve(local())
    look = "python3 -c 'import socket; print(socket.socket().connect_ex((\"127.0.0.1\", 80)))'"
    async with hosting(served) as bench:
        async with bench.sandbox() as box:
            assert await box.out(look) == "111\n"
            assert await box.out("cat /etc/hosts") == "127.0.0.1 localhost sandbox\n::1 localhost\n"
        async with bench.sandbox(exposes={"tally": ("add",)}) as unconnected:
            source = "print(json.dumps(call('add', name='x')[0]))"
            assert await said(unconnected, source, op_id="ep/1/0/0") == 502


async def test_a_call_survives_the_kill_of_its_host_and_of_its_world(
    docker_images: Path, tmp_path: Path, short_folder: Path
) -> None:
    """Both are killed when the effect is there and its reply is not: the next ones answer what was recorded."""
    database, socket = f"sqlite:///{tmp_path}/worlds.db", short_folder / "w.sock"
    first = serve_world(Engine(TALLIES, SqlWorlds(open_database(database))), socket)
    async with WorldClient(socket) as world:
        lease = (await serve(world)).lease
        program = [sys.executable, "-m", "tests.contract.sandboxes.docker_world_host_to_kill"]
        doomed = await asyncio.create_subprocess_exec(
            *program, str(tmp_path), str(docker_images), str(socket), lease.model_dump_json(), cwd=ROOT
        )
        while not (tmp_path / "under-way").exists():
            await asyncio.sleep(0.05)
            assert doomed.returncode is None
        doomed.send_signal(signal.SIGKILL)
        await doomed.wait()
        first.stop(None).wait()
        second = serve_world(Engine(TALLIES, SqlWorlds(open_database(database))), socket)
        served = ServedWorld(GatedWorld(world), lease)
        async with docker_host(tmp_path, docker_images, worlds=served.worlds) as host:
            (record,) = await host.sandboxes()
            bench = SandboxBench(host, "docker")
            box = Box(bench, bench.order(name=record.ref.name, episode_id=record.episode_id))
            ended = await box.sh("python3 calling.py", op_id="ep/1/0/0")
            assert json.loads(ended.stdout.text)[0] == 200
            await host.release(record.ref)
        facts = await served.facts()
        second.stop(None).wait()
    assert [one.delivery_id for one in facts.deliveries] == ["ep/1/0/0/http/1"]
    assert [change.after and change.after["amounts"] for change in facts.changes] == [[1]]  # type: ignore[index, call-overload]


async def test_a_container_that_is_used_again_serves_nothing_of_the_one_before(
    docker_images: Path, tmp_path: Path
) -> None:
    served = await serve(local())
    async with docker_host(tmp_path, docker_images, warm=3, worlds=served.worlds) as host:
        bench = SandboxBench(host, "docker")
        async with served.sandbox(bench, isolation="reset") as box:
            assert (await said(box, "print(json.dumps(call('add', name='x')))", op_id="ep/1/0/0"))[0] == 200
            await box.close()
        async with bench.sandbox(isolation="reset") as box:
            look = "python3 -c 'import socket; print(socket.socket().connect_ex((\"127.0.0.1\", 80)))'"
            assert await box.out(look) == "111\n"
            assert await box.out("cat /etc/hosts") == "127.0.0.1 localhost sandbox\n::1 localhost\n"
            await box.close()
            assert (await host.facts(box.ref)).served_before == 1
        other = await serve(served.world, "ep-2")
        async with other.sandbox(bench, isolation="reset") as box:
            assert (await said(box, "print(json.dumps(call('add', name='x')))", op_id="ep/1/0/0"))[1]["total"] == 1
