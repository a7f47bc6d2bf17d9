"""Settle, seal, drain and the end of the supervisor itself: what is left is found, ended and counted."""

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from infra.sandboxes.unsafe_local import UnsafeLocalLauncher
from schemas.sandbox_facts import SandboxDrain
from tests.contract.sandboxes.supervised import Supervised, changed, supervised
from tiltyard.errors import BadInput, SandboxLost

DAEMON = (
    "import os, signal, time\n"
    "for _ in range(2):\n"
    "    if os.fork(): os._exit(0)\n"
    "    os.setsid()\n"
    "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    "os.chdir('/')\n"
    "open(NAME, 'w').close()\n"
    "time.sleep(1000)\n"
)
"""Two forks, a session of its own, deaf to TERM, away from its folder."""


async def daemon(den: Supervised, name: str) -> None:
    await den.run(sys.executable, "-I", "-S", "-c", DAEMON.replace("NAME", repr(str(den.work / name))))
    await den.appears(name)


async def close(den: Supervised, term_s: float = 0.3) -> SandboxDrain:
    await den.link.ask("seal")
    return SandboxDrain.model_validate(await den.link.ask("drain", term_s=term_s))


def alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


async def settle_sees_a_daemon(den: Supervised) -> None:
    assert await den.link.ask("settle", limit_s=0) == {"empty": True}
    await daemon(den, "on")
    assert await den.link.ask("settle", limit_s=0.1) == {"empty": False}


async def settle_waits_for_the_last(den: Supervised) -> None:
    await den.sh("(while [ ! -e go ]; do sleep 0.01; done; echo x > went) &")
    waiting = asyncio.create_task(den.link.ask("settle", limit_s=60))
    await asyncio.sleep(0)  # it is asked first
    await den.write("go", b"")
    assert await waiting == {"empty": True}
    assert (den.work / "went").exists()


async def a_drain_ends_the_deaf_and_counts(den: Supervised) -> None:
    await daemon(den, "deaf")
    await den.sh("sleep 1000 & sleep 1000 &")
    report = await close(den)
    assert report == SandboxDrain(found=3, ended_by_term=2, ended_by_kill=1)
    assert SandboxDrain.model_validate(await den.link.ask("drain")) == report
    assert psutil.Process(den.process.pid).children(recursive=True) == []


async def what_is_stopped_is_ended_by_term_too(den: Supervised) -> None:
    await den.sh("sleep 1000 & kill -STOP $!")
    assert await close(den, term_s=60) == SandboxDrain(found=1, ended_by_term=1)


RUNNER = (
    "import os, signal, time\n"
    "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    "open('started', 'w').write(str(os.getpgrp())); os.rename('started', 'on')\n"
    "until = time.monotonic() + 20\n"
    "while time.monotonic() < until:\n"
    "    if os.fork(): os._exit(0)\n"
)
"""Goes on in a new process all the time: whoever kills what was seen a moment ago kills nobody."""


async def runner(den: Supervised) -> None:
    await den.sh(f'{sys.executable} -I -S -c "{RUNNER}" &')
    await den.appears("on")


async def what_forks_all_the_time_is_ended(den: Supervised) -> None:
    await runner(den)
    report = await asyncio.wait_for(close(den, term_s=0.05), 60)
    assert report.empty
    try:
        os.killpg(int((den.work / "on").read_text()), signal.SIGKILL)
    except ProcessLookupError:
        return
    raise AssertionError("it goes on after the drain")


async def a_command_in_flight_has_not_ended(den: Supervised) -> None:
    asked = asyncio.create_task(den.sh("echo > on; exec sleep 1000", op_id="open"))
    await den.appears("on")
    await close(den)
    result = await asked
    assert (result.exit_code, result.signal) == (None, "SIGTERM")
    (record,) = (await den.facts()).commands
    assert (record.started, record.ended) == (True, False)


async def a_hang_up_ends_everything(den: Supervised) -> None:
    await daemon(den, "deaf")
    await den.sh("sleep 1000 &")
    asked = asyncio.create_task(den.sh("echo > on; exec sleep 1000", op_id="open"))
    await den.appears("on")
    pids = [one.pid for one in psutil.Process(den.process.pid).children(recursive=True)]
    assert len(pids) == 3
    den.link.close()
    assert await asyncio.wait_for(den.ended(), 20) == 0
    with pytest.raises(SandboxLost):
        await asked
    assert [pid for pid in pids if alive(pid)] == []


CHECKS = (
    settle_sees_a_daemon,
    settle_waits_for_the_last,
    a_drain_ends_the_deaf_and_counts,
    what_is_stopped_is_ended_by_term_too,
    what_forks_all_the_time_is_ended,
    a_command_in_flight_has_not_ended,
    a_hang_up_ends_everything,
)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_endings(check: Any, tmp_path: Path) -> None:
    async with supervised(tmp_path) as den:
        await check(den)


@pytest.mark.parametrize(
    ("check", "old", "new"),
    [
        (settle_sees_a_daemon, "        self.kernel.prctl(PR_SET_CHILD_SUBREAPER, 1)\n", ""),
        (settle_waits_for_the_last, "            if nobody or again.over:\n", "            if True:\n"),
        (
            a_drain_ends_the_deaf_and_counts,
            "            self.sandbox.reach.kill()\n            self.sandbox.loop",
            "            self.sandbox.loop",
        ),
        (a_drain_ends_the_deaf_and_counts, "len(self.seen - alive))", "len(self.seen))"),
        (
            a_command_in_flight_has_not_ended,
            "operation.in_flight = operation.started",
            "operation.in_flight = False",
        ),
        (
            a_hang_up_ends_everything,
            "        sandbox.reach.kill()\n        children.reap()",
            "        break",
        ),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
async def test_a_supervisor_that_leaves_something_is_caught(check: Any, old: str, new: str, tmp_path: Path) -> None:
    program = changed(old, new, tmp_path)
    program.write_text(program.read_text().replace("KILL_S = 10.0", "KILL_S = 0.5"))
    try:
        async with supervised(tmp_path, program) as den:
            with pytest.raises(AssertionError):
                await check(den)
    finally:
        assert UnsafeLocalLauncher().sweep({"folder": str(tmp_path)})


async def test_a_supervisor_that_believes_what_it_sees_is_caught(tmp_path: Path) -> None:
    """Not each time: it may happen to see the one that forks all the time."""
    asks = "            return not self.pid_one or not look_at_all()\n        return False\n"
    program = changed(asks, asks.replace("return False", "return not self.others()"), tmp_path)
    for _ in range(20):
        async with supervised(tmp_path, program) as den:
            try:
                await what_forks_all_the_time_is_ended(den)
            except AssertionError:
                return
        (den.work / "on").unlink()
    pytest.fail("it was never caught")


async def test_a_drain_needs_a_seal_and_facts_a_drain(tmp_path: Path) -> None:
    async with supervised(tmp_path) as den:
        with pytest.raises(BadInput, match="not sealed"):
            await den.link.ask("drain")
        with pytest.raises(BadInput, match="not drained"):
            await den.link.ask("facts")


async def test_it_answers_while_it_drains(tmp_path: Path) -> None:
    async with supervised(tmp_path) as den:
        await daemon(den, "deaf")
        await den.link.ask("seal")
        draining = asyncio.create_task(den.link.ask("drain", term_s=1000))
        both = asyncio.create_task(den.link.ask("drain"))
        assert (await den.link.ask("ping"))["sealed"]
        psutil.Process(den.process.pid).children()[0].kill()
        assert await draining == await both


async def test_signals_that_agents_send_are_ignored(tmp_path: Path) -> None:
    async with supervised(tmp_path) as den:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGCHLD):
            os.kill(den.process.pid, number)
        assert await den.out("echo said") == "said\n"


async def test_zombies_of_others_are_collected(tmp_path: Path) -> None:
    async with supervised(tmp_path) as den:
        await den.python("import os\nfor _ in range(600):\n    if not os.fork(): os.fork(); os._exit(0)\n")
        assert await den.link.ask("settle", limit_s=30) == {"empty": True}
        assert [one for one in psutil.Process(den.process.pid).children() if one.status() != "zombie"] == []
        while psutil.Process(den.process.pid).children():
            await asyncio.sleep(0.01)


async def test_a_supervisor_that_is_killed_is_a_lost_sandbox(tmp_path: Path) -> None:
    async with supervised(tmp_path) as den:
        asked = asyncio.create_task(den.sh("echo > on; sleep 1000"))
        await den.appears("on")
        children = psutil.Process(den.process.pid).children(recursive=True)
        den.process.kill()
        with pytest.raises(SandboxLost):
            await asked
        for child in children:
            child.kill()
