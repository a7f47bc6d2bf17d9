"""Abuse of the sandbox next door: what the kernel has once for a user or for the machine, and not for each sandbox.

One takes all that it can get of it, and holds it; another must have its own all the same.
"""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.contract.sandboxes.abuse_yard import LIBC, Yard, printed, python
from tiltyard.testing.sandbox_bench import Box

HELD = """
import fcntl, os, signal, socket, sys
def hold():
    open("held", "w").close()
    signal.pause()
"""

WATCHES = """
import ctypes
libc = ctypes.CDLL(None)
while libc.inotify_init() >= 0: pass
"""

DESCRIPTORS_UNDER_WAY = """
def send(way):
    try: socket.send_fds(way, [b"x"], [0] * 250)
    except OSError: return False
    return True
ways = [socket.socketpair() for _ in range(60)]
for way, _ in ways:
    way.setblocking(False)
    while send(way): pass
"""

PAGES_IN_PIPES = """
def grow():
    try: pipes.append(os.pipe()); fcntl.fcntl(pipes[-1][1], fcntl.F_SETPIPE_SZ, 2**20)
    except OSError: return False
    return True
pipes = []
while grow(): pass
"""

SIGNALS_THAT_WAIT = """
number = signal.SIGRTMIN + 1
signal.pthread_sigmask(signal.SIG_BLOCK, [number])
import threading
try:
    while True: signal.pthread_kill(threading.get_ident(), number)
except OSError: pass
"""

TERMINALS = """
def open_all():
    try:
        while True: os.openpty()
    except OSError: pass
for _ in range(8):
    if not os.fork():
        open_all()
        signal.pause()
open_all()
"""

TAKEN = {
    "watches": (WATCHES, "import ctypes; print(ctypes.CDLL(None).inotify_init() >= 0)"),
    "descriptors under way": (
        DESCRIPTORS_UNDER_WAY,
        "import socket; one, other = socket.socketpair(); print(socket.send_fds(one, [b'x'], [0] * 250) == 1)",
    ),
    "pages in pipes": (PAGES_IN_PIPES, "import fcntl, os; print(fcntl.fcntl(os.pipe()[1], 1032) == 65536)"),
    "signals that wait": (
        SIGNALS_THAT_WAIT,
        "import signal as s, threading as t; n = s.SIGRTMIN + 1; s.pthread_sigmask(s.SIG_BLOCK, [n]); "
        "s.pthread_kill(t.get_ident(), n); print(n in s.sigpending())",
    ),
    "terminals": (TERMINALS, "import os; print(len(os.openpty()) == 2)"),
}
"""What one takes until there is no more, and what another does that needs a little of it."""


@asynccontextmanager
async def holding(box: Box, source: str) -> AsyncIterator[None]:
    """While a program holds what it has taken."""
    taking = asyncio.create_task(python(box, HELD + source + "hold()", timeout_s=1000))
    await box.appears("held")
    try:
        yield
    finally:
        await box.bench.soon(box.port.release(box.ref))
        await asyncio.gather(taking, return_exceptions=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="an ordinary user's sandboxes are all of that user")
@pytest.mark.parametrize(("taking", "needing"), TAKEN.values(), ids=TAKEN)
async def test_one_who_takes_all_that_there_is_takes_nobody_elses(yard: Yard, taking: str, needing: str) -> None:
    async with yard.sandbox() as greedy, yard.sandbox() as modest, holding(greedy, taking):
        assert await printed(modest, needing) == "True"


@pytest.mark.skipif(os.geteuid() != 0, reason="an ordinary user's sandboxes are all of that user")
async def test_no_two_are_the_same_user(yard: Yard) -> None:
    async with yard.sandbox() as one, yard.sandbox() as other:
        assert yard.user_of(one) != yard.user_of(other)
        for box in (one, other):
            assert await box.out("id -un; id -gn") == "agent\nagent\n"
            assert await box.out("id -u") == f"{yard.agent_of(box)}\n"


async def test_what_belongs_to_the_whole_machine_is_not_there(yard: Yard) -> None:
    """Requests of asynchronous input are counted for the machine, keys for a user across all namespaces."""
    attempts = """
assert libc.syscall(CALLS["io_setup"], 65536, ctypes.byref(ctypes.c_ulong())) == -1
assert ctypes.get_errno() == errno.ENOSYS
assert libc.syscall(CALLS["add_key"], b"user", b"canary", b"x", 1, -4) == -1
assert ctypes.get_errno() == errno.EPERM
"""
    calls = {"x86_64": {"io_setup": 206, "add_key": 248}, "aarch64": {"io_setup": 0, "add_key": 217}}
    async with yard.sandbox() as box:
        ended = await python(box, f"{LIBC}CALLS = {calls[os.uname().machine]}\n{attempts}")
        assert ended.stderr.text == ""


async def test_nobody_is_spoken_with_next_door(yard: Yard) -> None:
    """By names that are in no file system."""
    name = "\0a-name-next-door"
    listen = f"s = socket.socket(socket.AF_UNIX); s.bind({name!r}); s.listen();"
    async with yard.sandbox() as one, yard.sandbox() as other, holding(one, listen):
        ended = await python(other, f"import socket; socket.socket(socket.AF_UNIX).connect({name!r})")
        assert "ConnectionRefusedError" in ended.stderr.text


async def test_what_others_run_is_seen_by_shared_files_alone(yard: Yard) -> None:
    """Bubblewrap shows the machine's ``/usr``: whether a file of it is locked or opened by others can be told. In a
    container its files are that container's."""
    lock = "fd = os.open('/usr/bin/env', os.O_RDONLY); fcntl.flock(fd, fcntl.LOCK_EX);"
    look = """
import fcntl, os
try: fcntl.flock(os.open("/usr/bin/env", os.O_RDONLY), fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError: print("locked")
else: print("free")
"""
    async with yard.sandbox() as one, yard.sandbox() as other, holding(one, lock):
        assert await printed(other, look) == ("locked" if yard.expected.others_see else "free")
