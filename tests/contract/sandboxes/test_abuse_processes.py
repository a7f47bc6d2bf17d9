"""Abuse by processes: bombs, daemons, zombies, memory, and the one who watches over them."""

import pytest

from infra.sandboxes.cgroups import SUPERVISOR_PROCESSES
from schemas.sandbox import SandboxLimits
from tests.contract.sandboxes.abuse_yard import LIBC, Yard, drained, printed, python, until
from tiltyard.testing.sandbox_bench import Box

MIB = 2**20
FEW = SandboxLimits(processes=32)


async def works(box: Box) -> None:
    assert (await box.sh("echo still here")).stdout.text == "still here\n"


async def test_a_fork_bomb_stays_within_its_limit_and_is_ended(yard: Yard) -> None:
    yard.needs("processes")
    async with yard.sandbox(limits=FEW) as box:
        bomb = "import os\nwhile True:\n try: os.fork()\n except OSError: pass"
        ended = await python(box, bomb, timeout_s=1)
        assert ended.timed_out
        await box.sh(f"python3 -c '{bomb}' >/dev/null 2>&1 & exec sleep 0.5")
        assert 8 < yard.processes(box) <= FEW.processes + SUPERVISOR_PROCESSES
        # While it burns, a command may not find a place; that is an answer too, and the supervisor gives it.
        reply = await box.call(box.script("true"))
        assert reply.exec is not None or reply.code == "cannot_start"
        report = await drained(box)
        assert report.found > 8
        assert report.empty


async def test_one_who_has_left_its_session_and_ignores_term_is_killed(yard: Yard) -> None:
    daemon = """
import os, signal, sys, time
if os.fork(): os._exit(0)
os.setsid()
if os.fork(): os._exit(0)
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP): signal.signal(number, signal.SIG_IGN)
open("ready", "w").close()
time.sleep(1000)
"""
    async with yard.sandbox() as box:
        await python(box, daemon)
        await box.appears("ready")
        report = await drained(box)
        assert (report.found, report.ended_by_kill, report.empty) == (1, 1, True)
        assert yard.processes(box) == 1


async def test_zombies_that_nobody_waits_for_cost_nobody_else(yard: Yard) -> None:
    """A parent that never waits fills its own sandbox; once it has gone, there is room again."""
    flood = """
import os, time
made = 0
try:
    while made < 500:
        if not os.fork(): os._exit(0)
        made += 1
except OSError: pass
print(made, flush=True)
"""
    async with yard.sandbox(limits=FEW) as box:
        made = int(await printed(box, flood))
        assert 8 < made < FEW.processes + SUPERVISOR_PROCESSES
        await works(box)
        assert (await drained(box)).empty


async def test_a_process_that_wants_too_much_memory_is_refused_it(yard: Yard) -> None:
    limits = SandboxLimits(memory_bytes=128 * MIB)
    async with yard.sandbox(limits=limits) as box:
        ended = await python(box, f"held = bytearray({256 * MIB})")
        assert ended.exit_code == 1
        assert "MemoryError" in ended.stderr.text
        await works(box)


async def test_processes_that_want_too_much_together_are_killed_and_the_supervisor_is_not(yard: Yard) -> None:
    yard.needs("memory")
    together = f"""
import os, sys, time
held = b"x" * {90 * MIB}
child = "import time; held = b'y' * {75 * MIB}; time.sleep(30)"
for _ in range(2):
    os.posix_spawn(sys.executable, ["python3", "-c", child], dict(os.environ))
time.sleep(30)
"""
    limits = SandboxLimits(memory_bytes=128 * MIB, disk_bytes=MIB)
    async with yard.sandbox(limits=limits) as box:
        ended = await python(box, together)
        assert (ended.signal, ended.out_of_memory, ended.timed_out) == ("SIGKILL", True, False)
        await works(box)
        killed = await box.sh("kill -9 $$")
        assert not killed.out_of_memory, "killed by itself"


BALLOONS = """
import os, signal, sys, time
for name in ("oom_score_adj", "oom_adj"):
    try: open(f"/proc/self/{name}", "w").write("0")
    except OSError: pass
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if sys.argv[1:] == ["at the end"]:
    told = []
    signal.signal(signal.SIGTERM, lambda *_: told.append(True))
    open("ready", "w").close()
    while not told: time.sleep(0.01)
for _ in range(20):
    os.dup2(os.memfd_create("pages", 0), 9)
    if not os.fork():
        os.setsid()
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.execv("/bin/sh", ["sh", "-c", "head -c 60000000 /dev/zero >&9; exec sleep 1000"])
os.execv("/bin/sleep", ["sleep", "3"])
"""
"""Small processes that hold much memory which counts for none of them, and would rather not be killed first."""


@pytest.mark.parametrize("when", ["while a command runs", "at the end"])
async def test_memory_that_counts_for_nobody_kills_the_supervisor_neither(yard: Yard, when: str) -> None:
    yard.needs("memory")
    async with yard.sandbox() as box:
        await box.put("balloons.py", BALLOONS.encode())
        await box.sh(f"setsid python3 balloons.py '{when}' >/dev/null 2>&1 & sleep 1")
        if when != "at the end":
            await until(lambda: yard.watched.launched[box.order.name].memory_kills(), "nobody was killed")
            ended = await box.sh("echo still here")  # which may be killed itself: that is told, too
            assert ended.out_of_memory or ended.stdout.text == "still here\n"
        assert (await drained(box)).empty
        assert yard.watched.launched[box.order.name].memory_kills(), "there was memory enough"
        assert await box.files()


async def test_nobody_says_who_is_killed_for_want_of_memory(yard: Yard) -> None:
    async with yard.sandbox() as box:
        for name in ("oom_score_adj", "oom_adj"):
            ended = await box.sh(f"for one in self $$ 1; do echo 1 > /proc/$one/{name} && echo written; done")
            assert ended.stdout.text == "", name
        assert await box.out("cat /proc/self/oom_score_adj") == "1000\n"
        outputs = "echo out > /dev/stdout; echo err > /proc/self/fd/2; echo file 3> f > /dev/fd/3"
        said = await box.sh(outputs)
        assert (said.exit_code, said.stdout.text, said.stderr.text) == (0, "out\n", "err\n")


@pytest.mark.parametrize("signal", ["KILL", "TERM", "INT", "HUP", "STOP", "USR1", "SEGV"])
async def test_no_signal_from_inside_reaches_the_supervisor(yard: Yard, signal: str) -> None:
    """A sample whose agent had ended its sandbox counted as a success (inspect_ai 4709)."""
    async with yard.sandbox() as box:
        ended = await box.sh(f"kill -{signal} 1; kill -{signal} 1")
        assert ended.exit_code == yard.expected.signalling_the_supervisor
        await works(box)


async def test_all_are_killed_by_an_agent_but_the_supervisor(yard: Yard) -> None:
    async with yard.sandbox() as box:
        await box.sh("sleep 1000 & kill -KILL -1")
        assert await box.settle(30)
        await works(box)


async def test_one_who_stops_every_other_the_moment_it_is_born_stops_no_timeout(yard: Yard) -> None:
    stopper = b"""
import os, signal
open("ready", "w").close()
while True:
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) not in (1, os.getpid()):
            try: os.kill(int(name), signal.SIGSTOP)
            except OSError: pass
"""
    async with yard.sandbox() as box:
        await box.put("stopper.py", stopper)
        await box.sh("(setsid python3 stopper.py >/dev/null 2>&1 &)")
        await box.appears("ready")
        for _ in range(3):
            ended = await box.sh("exec sleep 1000", timeout_s=0.5)
            assert (ended.timed_out, ended.signal) == (True, "SIGKILL")
        assert (await drained(box)).empty


async def test_nobody_looks_into_the_supervisor(yard: Yard) -> None:
    attempts = """
PTRACE_ATTACH, PTRACE_SEIZE = 16, 0x4206
for request in (PTRACE_ATTACH, PTRACE_SEIZE):
    assert libc.ptrace(request, 1, 0, 0) == -1 and ctypes.get_errno() == errno.EPERM, "ptrace"
place = ctypes.create_string_buffer(64)
class Vector(ctypes.Structure): _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]
vector = Vector(ctypes.addressof(place), 64)
assert libc.process_vm_readv(1, ctypes.byref(vector), 1, ctypes.byref(vector), 1, 0) == -1, "process_vm_readv"
for name in "mem environ maps fd fdinfo cwd root exe map_files stack syscall auxv".split():
    path = "/proc/1/" + name
    try:
        found = os.listdir(path) if os.path.isdir(path) else open(path, "rb").read(8)
    except OSError:
        continue
    assert not found, (path, found)
"""
    async with yard.sandbox() as box:
        assert (await python(box, LIBC + attempts)).exit_code == 0
        await works(box)


async def test_nobody_limits_the_supervisor_or_slows_it_down(yard: Yard) -> None:
    """One that may write no file any more, or waits for ever, would take its sandbox with it."""
    attempts = """
import os, resource
idle = os.sched_param(0)
for name, attempt in {
    "file size": lambda: resource.prlimit(1, resource.RLIMIT_FSIZE, (1, 1)),
    "processor time": lambda: resource.prlimit(1, resource.RLIMIT_CPU, (1, 1)),
    "open files": lambda: resource.prlimit(1, resource.RLIMIT_NOFILE, (1, 1)),
    "scheduler": lambda: os.sched_setscheduler(1, os.SCHED_IDLE, idle),
    "processors": lambda: os.sched_setaffinity(1, {0}),
    "niceness": lambda: os.setpriority(os.PRIO_PROCESS, 1, 19),
    "niceness of the user": lambda: os.setpriority(os.PRIO_USER, 0, 19),
}.items():
    try:
        attempt()
    except PermissionError:
        continue
    raise SystemExit(f"{name} was changed")
resource.prlimit(os.getpid(), resource.RLIMIT_NOFILE, (64, 64))
os.setpriority(os.PRIO_PROCESS, 0, 1)
"""
    async with yard.sandbox() as box:
        assert (await python(box, attempts)).stderr.text == ""
        await works(box)


async def test_there_is_no_way_to_the_control_socket(yard: Yard) -> None:
    async with yard.sandbox() as box:
        look = "import os; print(sorted(os.readlink(f'/proc/self/fd/{fd}').partition(':')[0] for fd in range(64)"
        look += " if os.path.lexists(f'/proc/self/fd/{fd}')))"
        assert await printed(box, look) == "['/dev/null', 'pipe', 'pipe']"
        seen = [line.split()[7:] for line in (await box.out("tail -n +2 /proc/net/unix")).splitlines()]
        assert {name for names in seen for name in names} == yard.expected.named_sockets
        for path in ("/ctl/door", *yard.expected.named_sockets):
            ended = await python(box, f"import socket; socket.socket(socket.AF_UNIX).connect({path!r})")
            assert ended.stderr.text.splitlines()[-1].partition(":")[0] in ("PermissionError", "FileNotFoundError")


async def test_a_child_that_holds_the_outputs_holds_up_nobody(yard: Yard) -> None:
    """A command has ended when its leader has (moby 33039, 41052; gvisor 11730), the second time too."""
    async with yard.sandbox() as box:
        for _ in range(2):
            ended = await box.sh("sleep 1000 & echo said; exit 4", timeout_s=60)
            assert (ended.exit_code, ended.stdout.text, ended.timed_out) == (4, "said\n", False)
        report = await drained(box)
        assert (report.found, report.ended_by_term, report.empty) == (2, 2, True)


async def test_a_line_of_a_billion_bytes_is_cut(yard: Yard) -> None:
    async with yard.sandbox() as box:
        ended = await box.sh("head -c 1000000000 /dev/zero; exit 2", timeout_s=120)
        assert (ended.exit_code, ended.stdout.total_bytes) == (2, 1_000_000_000)
        assert len(ended.stdout.text) < box.order.limits.output_bytes + 200
        assert ended.stdout.cut_bytes >= 1_000_000_000 - box.order.limits.output_bytes


async def test_outputs_that_are_no_text_or_closed(yard: Yard) -> None:
    async with yard.sandbox() as box:
        ended = await box.sh(r"printf 'a\377\300b'; printf '\355\240\200' >&2")
        assert ended.stdout.invalid_utf8
        assert (ended.stdout.text[0], ended.stdout.text[-1]) == ("a", "b")
        assert ended.stderr.invalid_utf8
        assert (await box.sh("exec <&- >&- 2>&-; exit 3")).exit_code == 3
        await works(box)
