"""Commands under the supervisor: what they are given, what is kept of them, and how they are ended."""

import asyncio
import os
import resource
import signal
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from infra.sandboxes.unsafe_local import UnsafeLocalLauncher
from schemas.sandbox import SandboxLimits
from tests.contract.sandboxes.supervised import Supervised, changed, supervised
from tiltyard.errors import SandboxLost

MIB = 2**20


async def test_what_a_command_is_given(tmp_path: Path) -> None:
    limits = SandboxLimits(cpu_s=7, memory_bytes=256 * MIB, disk_bytes=3 * MIB)
    async with supervised(tmp_path, limits=limits, environment={"GREETING": "good day", "LANG": "C"}) as den:
        (tmp_path / "work" / "here").write_text("")
        assert await den.out("ls; umask") == "here\n0022\n"
        said = await den.out("cd /proc/self; cat oom_score_adj; cut -d' ' -f1,6 stat; exec cat limits status")
        rows = {" ".join(line.split()[:-2]): line.split()[-3:] for line in said.splitlines() if "Max" in line}
        assert "Max cpu time 7" in rows
        assert f"Max address space {256 * MIB}" in rows
        assert f"Max file size {3 * MIB}" in rows
        assert "Max open files 1024" in rows
        assert "Max core file size 0" in rows
        assert "NoNewPrivs:\t1" in said
        (ignored,) = [line.split()[1] for line in said.splitlines() if line.startswith("SigIgn:")]
        assert int(ignored, 16) == 0, f"commands ignore signals: {ignored}"
        assert "SigBlk:\t0000000000000000" in said
        score, leader, *_ = said.splitlines()
        assert score == "1000", "the kernel ends others before it, for want of memory"
        assert len(set(leader.split())) == 1, "it leads no session of its own"
        env = await den.out("exec env")
        assert set(env.splitlines()) == {
            "GREETING=good day",
            "LANG=C",
            f"HOME={den.work}",
            "PATH=/usr/local/bin:/usr/bin:/bin",
            f"PWD={den.work}",
        }


IGNORING = """
import ctypes, os, sys
ignored = (1).to_bytes(8, "little") + bytes(24)
number = {"x86_64": 13, "aarch64": 134}[os.uname().machine]
libc = ctypes.CDLL(None)
for one in (1, 2, 10, 15, 20, 32, 33, 40):
    libc.syscall(number, one, ignored, None, 8)
os.execv(sys.argv[1], sys.argv[1:])
"""
"""Has signals ignored, the C library's own among them, and becomes what it is told to."""


async def test_commands_ignore_no_signal_whoever_started_the_supervisor(tmp_path: Path) -> None:
    async with supervised(tmp_path, before=(sys.executable, "-c", IGNORING)) as den:
        said = await den.out("exec grep SigIgn /proc/self/status")
        assert int(said.split()[1], 16) == 0, said


async def test_the_supervisor_itself_is_not_the_first_to_go(tmp_path: Path) -> None:
    async with supervised(tmp_path) as den:
        await den.sh("true")
        score = Path(f"/proc/{den.process.pid}/oom_score_adj")
        assert score.read_text() == Path("/proc/self/oom_score_adj").read_text()


WAITS = ("        os.write(status, READY)\n", "        os.write(status, READY)\n        os.kill(os.getpid(), 19)\n")
"""A change to the supervisor: a command stops before it is released, for others to look into it."""


async def stopped_child(den: Supervised) -> psutil.Process:
    while True:
        for child in psutil.Process(den.process.pid).children():
            if child.status() == psutil.STATUS_STOPPED:
                return child
        await asyncio.sleep(0.005)


async def test_a_command_that_waits_for_its_release_holds_nothing_of_the_supervisor_s(tmp_path: Path) -> None:
    """From there on others may look into it, and say in its name what is then not believed."""
    async with supervised(tmp_path, changed(*WAITS, tmp_path)) as den:
        asked = asyncio.create_task(den.sh("echo said"))
        child = await stopped_child(den)
        held = {fd.name: os.readlink(fd).partition(":")[0] for fd in Path(f"/proc/{child.pid}/fd").iterdir()}
        assert sorted(held.values()) == ["/dev/null", *["pipe"] * 4]
        status, _gate = sorted(int(name) for name in held if int(name) > 2)
        forged = os.open(f"/proc/{child.pid}/fd/{status}", os.O_WRONLY)
        os.write(forged, b"\n1\nno number")
        child.send_signal(signal.SIGCONT)
        result = await asyncio.wait_for(asked, 20)  # though we hold the other end
        os.close(forged)
        assert (result.exit_code, result.stdout.text) == (0, "said\n")


async def test_input_arrives_whole(tmp_path: Path) -> None:
    async with supervised(tmp_path) as den:
        sent = os.urandom(3 * MIB)
        result = await den.sh("cat > copy; wc -c < copy", stdin=sent)
        assert result.stdout.text.strip() == str(len(sent))
        assert (den.work / "copy").read_bytes() == sent
        assert await den.out("cat") == ""


async def a_child_that_holds_the_outputs(den: Supervised) -> None:
    result = await asyncio.wait_for(den.sh("echo said; sleep 1000 & exit 4"), 20)
    assert (result.exit_code, result.stdout.text) == (4, "said\n")


async def an_output_that_was_closed_is_nobody_elses(den: Supervised) -> None:
    """The number of a closed descriptor is given out again: to another command's output, or to watch a process."""
    waits = "until [ -e {} ]; do read -t 0.01 -r _ < waiting || :; done"
    os.mkfifo(den.work / "waiting")
    holds = os.open(den.work / "waiting", os.O_RDWR)
    first = asyncio.create_task(den.run("bash", "-c", f"exec >&- 2>&-; : > closed; {waits.format('go')}"))
    await den.appears("closed")
    for _ in range(3):
        await den.link.ask("ping")  # it has seen the ends of both outputs by then
    second = asyncio.create_task(den.run("bash", "-c", f"echo one; : > began; {waits.format('stop')}; echo two"))
    await den.appears("began")
    (den.work / "go").touch()
    ended = (await first).exec
    (den.work / "stop").touch()
    other = (await second).exec
    os.close(holds)
    assert ended is not None
    assert other is not None
    assert (ended.exit_code, ended.stdout.text, other.stdout.text) == (0, "", "one\ntwo\n")


async def a_timeout_ends_the_session(den: Supervised) -> None:
    """Also those that left the group of the leader, and that were left by their parents."""
    script = (
        "import os\nif os.fork(): os._exit(0)\nos.setpgid(0, 0)\nopen('on', 'w')\nimport time; time.sleep(1000)"
    )
    result = await den.sh(f'{sys.executable} -c "{script}" & sleep 1000', timeout_s=2)
    assert (result.timed_out, result.signal, result.exit_code) == (True, "SIGKILL", None)
    assert (den.work / "on").exists(), "the machine is too slow for this test"
    assert (await den.link.ask("settle", limit_s=5)) == {"empty": True}


async def a_long_line_takes_no_memory(den: Supervised) -> None:
    async def peak() -> int:
        status = Path(f"/proc/{den.process.pid}/status").read_text()
        return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))

    before = await peak()
    out = (await den.sh("head -c 64000000 /dev/zero | tr '\\0' x")).stdout
    assert (out.total_bytes, out.cut_bytes) == (64_000_000, 64_000_000 - 16_384)
    assert len(out.text) < 16_384 + 100
    assert await peak() - before < 8_000, "the supervisor keeps more than it tells"


async def a_cut_goes_through_no_character(den: Supervised) -> None:
    for shift in range(4):
        script = f"print('x' * {shift} + '\\N{{HOT BEVERAGE}}\\U0001F600' * 9000, end='')"
        reply = await den.run(sys.executable, "-X", "utf8", "-c", script)
        assert reply.exec is not None
        out = reply.exec.stdout
        assert not out.invalid_utf8
        assert "\ufffd" not in out.text
        first, _, last = out.text.split("\n")
        assert len(first.encode()) + len(last.encode()) + out.cut_bytes == out.total_bytes == shift + 7 * 9000


async def it_tells_why_it_cannot_start(den: Supervised) -> None:
    (den.work / "plain").write_text("no program")
    (den.work / "odd").write_text("no program")
    (den.work / "odd").chmod(0o755)
    (den.work / "folder").mkdir()
    for argv, why in (
        (("no-such-program",), "No such file"),
        (("/no/such/program",), "No such file"),
        (("./plain",), "Permission denied"),
        (("./folder",), "Permission denied"),
        (("./odd",), "Exec format error"),
        (("true", "a\0b"), "Invalid argument"),
        (("true", "x" * 200_000), "Argument list too long"),
    ):
        reply = await den.run(*argv)
        assert (reply.code, reply.exec) == ("cannot_start", None), reply
        assert why in reply.message
        assert argv[0] in reply.message


CHECKS = (
    a_child_that_holds_the_outputs,
    an_output_that_was_closed_is_nobody_elses,
    a_timeout_ends_the_session,
    a_long_line_takes_no_memory,
    a_cut_goes_through_no_character,
    it_tells_why_it_cannot_start,
)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_commands(check: Any, tmp_path: Path) -> None:
    async with supervised(tmp_path) as den:
        await check(den)


@pytest.mark.parametrize(
    ("check", "old", "new"),
    [
        (a_timeout_ends_the_session, "    for _ in range(SESSION_LOOKS):\n", "    for _ in ():\n"),
        (a_long_line_takes_no_memory, "if len(self.tail) > 2 * self.limit:", "if False:"),
        (a_cut_goes_through_no_character, "return data[:-back] if needed > back else data", "return data"),
        (a_cut_goes_through_no_character, "            return data[start:]\n", "            return data\n"),
        (it_tells_why_it_cannot_start, "        if failure.isdigit():\n", "        if False:\n"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
async def test_a_supervisor_that_does_worse_is_caught(check: Any, old: str, new: str, tmp_path: Path) -> None:
    async with supervised(tmp_path, changed(old, new, tmp_path)) as den:
        with pytest.raises(AssertionError):
            await check(den)


async def test_a_supervisor_that_waits_for_the_end_of_output_is_caught(tmp_path: Path) -> None:
    """It would never come."""
    old = '            self.on_output(fd, int.from_bytes(waiting, "little") or 1)\n'
    waits = "os.set_blocking(fd, True)\n            while fd not in self.read_to_end: self.on_output(fd)"
    new = f"            {waits}\n"
    async with supervised(tmp_path, changed(old, new, tmp_path)) as den:
        asked = asyncio.create_task(den.sh("echo said; echo > on; sleep 1000 & exit 4"))
        await den.appears("on")
        done, _ = await asyncio.wait([asked], timeout=1)
        assert not done
        den.process.kill()
        with pytest.raises(SandboxLost):
            await asked
    assert UnsafeLocalLauncher().sweep({"folder": str(tmp_path)}), "the sleeper is left"


async def descriptors(den: Supervised) -> int:
    """How many it has open once it has heard of everybody's end."""
    for do in ("settle", "ping", "ping"):
        await den.link.ask(do, limit_s=5)
    return len(os.listdir(f"/proc/{den.process.pid}/fd"))


async def test_without_descriptors_nothing_starts_and_nothing_leaks(tmp_path: Path) -> None:
    async with supervised(tmp_path) as den:
        assert (await den.sh("exit 0")).exit_code == 0
        open_files = await descriptors(den)
        soft, hard = resource.prlimit(den.process.pid, resource.RLIMIT_NOFILE)
        for room in range(1, 10):
            resource.prlimit(den.process.pid, resource.RLIMIT_NOFILE, (open_files + room, hard))
            reply = await den.run("/bin/sh", "-c", "exit 0")
            assert reply.code in ("", "cannot_start"), reply
            assert (reply.code == "cannot_start") == ("Too many open files" in reply.message)
        resource.prlimit(den.process.pid, resource.RLIMIT_NOFILE, (soft, hard))
        assert (await den.sh("exit 5")).exit_code == 5
        assert await descriptors(den) == open_files


async def test_processor_time_is_ended_by_its_signal(tmp_path: Path) -> None:
    async with supervised(tmp_path, limits=SandboxLimits(cpu_s=1)) as den:
        result = await den.sh("while :; do :; done")
        assert (result.signal, result.timed_out) == ("SIGXCPU", False)


async def test_the_order_bounds_the_time_of_a_command(tmp_path: Path) -> None:
    async with supervised(tmp_path, limits=SandboxLimits(command_s=0.2)) as den:
        assert (await den.sh("sleep 1000", timeout_s=1000)).timed_out


async def test_a_timeout_ends_one_that_was_stopped_before_it_had_its_session(tmp_path: Path) -> None:
    stopped = "        os.kill(os.getpid(), _signal.SIGSTOP)\n        os.setsid()\n"
    async with supervised(tmp_path, changed("        os.setsid()\n", stopped, tmp_path)) as den:
        result = await asyncio.wait_for(den.sh("echo said", timeout_s=0.2), 20)
        assert (result.timed_out, result.signal, result.stdout.text) == (True, "SIGKILL", "")


async def test_signals_have_the_names_that_people_use(tmp_path: Path) -> None:
    async with supervised(tmp_path) as den:
        for name in ("ABRT", "BUS", "HUP", "PIPE", "SEGV", "TERM", "USR1"):
            assert (await den.sh(f"kill -{name} $$")).signal == f"SIG{name}"
