"""What went wrong elsewhere with commands that outlive whoever asked for them, or are asked for again.

Each test is named after what is to be survived; its report stands in its docstring, and in ``public_reports.toml``.
"""

import asyncio
import os
import tempfile
import threading
from contextlib import AsyncExitStack
from pathlib import Path

import psutil
import pytest

from infra.sandboxes.bubblewrap import BubblewrapLauncher
from infra.sandboxes.client import HostClient
from infra.sandboxes.host import SandboxHost
from infra.sandboxes.launching import Launched
from infra.sandboxes.serve import serving
from schemas.operation import ExecRequest
from schemas.sandbox import SandboxLimits
from tests.contract.sandboxes.abuse_yard import Yard, drained, printed, until
from tiltyard.errors import SandboxLost
from tiltyard.testing.sandbox_bench import SandboxBench


async def test_a_timeout_leaves_nothing_of_the_command_running(yard: Yard) -> None:
    """What a command had started went on inside when its client was ended (inspect_ai 1357, inspect_ai 2779,
    openclaw 110735)."""
    async with yard.sandbox() as box:
        ended = await box.sh("sleep 1000 & (trap '' TERM; sleep 1000) & wait", timeout_s=0.5)
        assert (ended.timed_out, ended.signal) == (True, "SIGKILL")
        await until(lambda: yard.processes(box) == 1, "what was killed takes a moment to go")


async def test_a_caller_that_goes_away_leaves_a_command_that_is_still_ours(yard: Yard) -> None:
    """Killing the client of an exec leaves its command to nobody (runc 3359). Here it can be asked for, and ends
    with its sandbox."""
    async with yard.sandbox() as box:
        script = box.script("touch began; sleep 1000", op_id="left", timeout_s=1000)
        caller = asyncio.create_task(yard.port.call(box.ref, script))
        await box.appears("began")
        caller.cancel()
        await asyncio.gather(caller, return_exceptions=True)
        again = asyncio.create_task(yard.port.call(box.ref, script))
        report = await drained(box)
        assert (report.found, report.empty) == (2, True)
        ended = (await again).exec
        assert ended is not None
        assert ended.signal == "SIGTERM"


async def test_orphans_are_adopted_and_ended_with_the_sandbox(yard: Yard) -> None:
    """What an exec left running had no parent in its container any more, and held its outputs (moby 29700)."""
    async with yard.sandbox() as box:
        assert await box.out("(sleep 987654 &) ; echo said") == "said\n"
        parents = "for p in /proc/[0-9]*; do grep -qs 987654 $p/cmdline && grep PPid $p/status; done; true"
        assert "PPid:\t1\n" in await box.out(parents)
        report = await drained(box)
        assert (report.found, report.ended_by_term, report.empty) == (1, 1, True)


ORPHANS = b"""
import os, time
def fork():
    while True:
        try: return os.fork()
        except BlockingIOError: time.sleep(0.002)  # until those before have been waited for
for _ in range(300):
    if not fork():
        fork()
        os._exit(0)
    os.wait()
"""


async def test_orphans_that_have_ended_do_not_fill_the_limit_of_processes(yard: Yard) -> None:
    """The first process of a sandbox waited for none, and zombies filled it (openclaw 68691)."""
    few = SandboxLimits(processes=16)
    async with yard.sandbox(limits=few) as box:
        await box.put("flood.py", ORPHANS)
        assert (await box.sh("python3 flood.py")).stderr.text == ""
        assert await box.settle(30)
        assert await box.out("grep -l '^State:.Z' /proc/[0-9]*/status | wc -l") == "0\n"


async def test_a_server_that_was_left_running_is_told_and_holds_no_port_of_the_next(yard: Yard) -> None:
    """After a pause a process was in no list any more, and its port in use (E2B 1031)."""
    serve = "import socket, time; s = socket.create_server(('127.0.0.1', 3000)); open('up', 'w'); time.sleep(1000)"
    listen = "import socket; socket.create_server(('127.0.0.1', 3000)); print('free')"
    async with yard.sandbox() as box:
        await box.put("serve.py", serve.encode())
        await box.sh("(python3 serve.py &)")
        await box.appears("up")
        assert (await drained(box)).found == 1
        facts = await yard.port.facts(box.ref)
        assert [one.argv for one in facts.processes if one.left] == [("python3", "serve.py")]
        later = box.again()
        await later.provision()
        assert await printed(later, listen) == "free"


async def test_a_retry_of_a_call_in_flight_joins_it(yard: Yard) -> None:
    """The command ran a second time beside the first (SWE-ReX 299)."""
    async with yard.sandbox() as box:
        script = box.script("echo ran >> log; until [ -e go ]; do sleep 0.01; done", op_id="once")
        first = asyncio.create_task(box.call(script))
        await box.appears("log")
        again = [asyncio.create_task(box.call(script)) for _ in range(3)]
        await box.put("go", b"")
        assert len({reply.model_dump_json() for reply in await asyncio.gather(first, *again)}) == 1
        assert await box.content("log") == b"ran\n"


async def test_a_retry_of_an_ended_call_is_told_what_came_of_it(yard: Yard) -> None:
    """Work that was done again as a whole ran a finished command again (agentarea 320), and an error of a gateway
    was taken for a call that had not arrived (NeMo Gym 2434)."""
    async with yard.sandbox() as box:
        script = box.script("echo ran >> log; cat log; exit 3", op_id="once")
        first = await box.call(script)
        assert first.exec is not None
        assert (first.exec.exit_code, first.exec.stdout.text) == (3, "ran\n")
        assert [await box.call(script) for _ in range(3)] == [first] * 3
        assert await box.content("log") == b"ran\n"


async def test_a_command_is_found_again_however_long_it_runs(yard: Yard) -> None:
    """A command could not be found by its number any more after some minutes (E2B 1074). Here it has an id that
    nothing forgets, whatever runs meanwhile."""
    async with yard.sandbox() as box:
        script = box.script("touch began; until [ -e go ]; do sleep 0.01; done; echo done", op_id="long")
        first = asyncio.create_task(box.call(script))
        await box.appears("began")
        for _ in range(200):
            await box.call(ExecRequest(op_id=f"other-{os.urandom(4).hex()}", argv=("true",), timeout_s=10))
        again = asyncio.create_task(box.call(script))
        await box.put("go", b"")
        assert (await again) == (await first)
        assert (await box.call(script)) == (await first)


async def test_what_has_been_released_leaves_no_zombie(yard: Yard) -> None:
    """The program that makes a sandbox left a child that nobody waited for (bubblewrap 697)."""
    async with yard.sandbox() as box:
        await box.sh("(sleep 1000 &)")
        inside = yard.watched.launched[box.order.name].processes()
        around = [parent.pid for pid in inside for parent in psutil.Process(pid).parents() if _is_ours(parent)]
    gone = {*inside, *around}
    await until(lambda: not [pid for pid in gone if Path(f"/proc/{pid}").exists()], "zombies count")


def _is_ours(process: psutil.Process) -> bool:
    return process.cmdline()[:1] != [] and process.cmdline()[0].startswith("tiltyard-sandbox-")


async def test_a_sandbox_outlives_the_thread_that_asked_for_it(
    bubblewrap: BubblewrapLauncher, tmp_path: Path
) -> None:
    """bwrap is ended with the *thread* that started it, not with its process (bubblewrap 692)."""
    order = SandboxBench(SandboxHost({}, tmp_path, slots=1), "bubblewrap").order()
    made: list[Launched] = []
    asking = threading.Thread(target=lambda: made.append(asyncio.run(bubblewrap.launch(order, tmp_path))))
    asking.start()
    await asyncio.to_thread(asking.join)
    (launched,) = made
    with launched.control:
        try:
            launched.control.settimeout(10)
            launched.control.sendall(b'\0\0\0\x17\0\0\0\0{"id": 1, "do": "ping"}')
            assert await asyncio.to_thread(launched.control.recv, 100)
        finally:
            assert await asyncio.to_thread(launched.end)


async def test_an_end_of_what_has_ended_already_is_none_that_fails(yard: Yard) -> None:
    """Giving up a container that had stopped by itself was an error of the engine's (SWE-agent 496)."""
    async with yard.sandbox() as box:
        os.kill(min(yard.watched.launched[box.order.name].processes()), 9)
        with pytest.raises(SandboxLost):
            await box.sh("sleep 1000", timeout_s=1000)
        for _ in range(3):
            await yard.port.release(box.ref)
        assert await yard.port.sandboxes() == ()


async def test_clients_that_never_close_leave_no_threads(yard: Yard) -> None:
    """Thousands of threads were left by clients that never called close (AgentGym 62)."""
    assert isinstance(yard.port, SandboxHost)
    with tempfile.TemporaryDirectory() as runtime:
        path = Path(runtime) / "sandboxes.sock"
        async with serving(yard.port, path), yard.sandbox() as box, AsyncExitStack() as held:
            await box.sh("true")
            before = threading.active_count()
            for number in range(100):
                client = await held.enter_async_context(HostClient(path))
                reply = await client.call(box.ref, box.script("true", op_id=f"client-{number}"))
                assert reply.exec is not None
            assert threading.active_count() <= before
