"""Where sandboxes are abused: the host with bubblewrap below it, and a look at the machine from outside."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import pytest

from infra.sandboxes import cgroups
from infra.sandboxes.bwrap import INSIDE_ID
from infra.sandboxes.launching import Launched, Launcher
from schemas.operation import ExecRequest, ExecResult
from schemas.sandbox import Enforced, SandboxOffer, SandboxOrder
from schemas.sandbox_facts import SandboxDrain
from tiltyard.testing.sandbox_bench import Box, SandboxBench

LIBC = "import ctypes, errno, os, sys; libc = ctypes.CDLL(None, use_errno=True)\n"
"""The first line of a program that makes system calls."""


class Watched:
    """A launcher that remembers what it has launched."""

    def __init__(self, launcher: Launcher) -> None:
        self._launcher, self.driver = launcher, launcher.driver
        self.launched: dict[str, Launched] = {}
        self.groups: dict[str, set[Path]] = {}

    def offer(self) -> SandboxOffer:
        return self._launcher.offer()

    async def launch(self, order: SandboxOrder, folder: Path) -> Launched:
        launched = self.launched[order.name] = await self._launcher.launch(order, folder)
        own, theirs = (cgroups.groups_of(pid).folders for pid in (os.getpid(), min(launched.processes())))
        self.groups[order.name] = {*theirs} - {*own}
        return launched

    async def find(self, identity: dict[str, object]) -> Launched | None:
        return await self._launcher.find(identity)

    def sweep(self, identity: dict[str, object]) -> bool:
        return self._launcher.sweep(identity)

    def strays(self) -> int:
        return self._launcher.strays()


NAMESPACES = ("cgroup", "ipc", "mnt", "net", "pid", "user", "uts")


class Expected(NamedTuple):
    """What is promised where drivers differ: each of them holds, in its own way.

    ``agent``: the number of the user that commands see themselves as, ``None`` for that which they have on the
    machine. ``signalling_the_supervisor``: how ``kill 1`` exits, which reaches it never. ``bounding``: capabilities
    that no command has and that programs could be given, were there no ``no_new_privs``. ``others_see``: what is of
    the machine's and read-only, so that one can tell by it what others do.
    """

    agent: int | None
    root_supervises: bool
    signalling_the_supervisor: int
    namespaces: tuple[str, ...]
    bounding: int
    all_mounts_without_set_uid: bool
    absent: tuple[str, ...]
    named_sockets: frozenset[str]
    others_see: bool


BUBBLEWRAP = Expected(
    agent=INSIDE_ID,
    root_supervises=False,
    signalling_the_supervisor=0,  # sent, and ignored: the first process of a namespace has no handler for it
    namespaces=NAMESPACES,
    bounding=0,
    all_mounts_without_set_uid=True,
    absent=("/run", "/sys", "/boot", "/home", "/var"),
    named_sockets=frozenset(),
    others_see=True,  # /usr is the machine's own
)
DOCKER = Expected(
    agent=None,
    root_supervises=True,
    signalling_the_supervisor=1,  # refused: it is another user's
    namespaces=tuple(name for name in NAMESPACES if name != "user"),  # instead, a user of the machine of its own
    bounding=0b111 << 5,  # KILL, SETGID and SETUID, which the supervisor needs
    all_mounts_without_set_uid=False,  # instead, no program of the image is set-uid
    absent=(),  # folders of the image's: there is nothing in them but folders
    named_sockets=frozenset({"/ctl/door"}),  # in a folder that commands cannot enter
    others_see=False,
)


@dataclass(frozen=True)
class Yard(SandboxBench):
    """A bench whose sandboxes are looked for after their release: whatever happened in one, nothing is left."""

    watched: Watched = field(kw_only=True)
    expected: Expected = field(kw_only=True)

    @asynccontextmanager
    async def sandbox(self, **fields: Any) -> AsyncIterator[Box]:
        async with super().sandbox(**fields) as box:
            yield box
        assert self.watched.launched[box.order.name].processes() == ()
        assert not [group for group in self.watched.groups[box.order.name] if group.exists()]

    def needs(self, what: Enforced) -> None:
        """Skip the test where this machine cannot hold sandboxes to it, which the offer says."""
        if what not in self.watched.offer().enforced:
            pytest.skip(f"this machine does not enforce: {what}")

    def agent_of(self, box: Box) -> int:
        """The number of the user that its commands see themselves as."""
        return self.user_of(box) if self.expected.agent is None else self.expected.agent

    def user_of(self, box: Box) -> int:
        """The user of the machine that its commands run as."""
        launched = self.watched.launched[box.order.name]
        uid = launched.setup.get("uid", status_of(min(launched.processes()), "Uid")[0])
        return int(str(uid))

    def processes(self, box: Box) -> int:
        """How many live in it, the supervisor included, counted from outside."""
        return len(self.watched.launched[box.order.name].processes())


def status_of(pid: int, name: str) -> list[str]:
    """What the kernel tells of a process in one line of its status."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(line.split()[1:] for line in lines if line.startswith(f"{name}:"))


async def python(box: Box, source: str, timeout_s: float = 60) -> ExecResult:
    """Run a program in the sandbox's Python."""
    argv = ("python3", "-c", source)
    reply = await box.call(ExecRequest(op_id=f"python-{os.urandom(4).hex()}", argv=argv, timeout_s=timeout_s))
    assert reply.exec is not None, reply
    return reply.exec


async def printed(box: Box, source: str) -> str:
    """What a program prints that ends well."""
    ended = await python(box, source)
    assert ended.exit_code == 0, ended
    return ended.stdout.text.strip()


async def drained(box: Box) -> SandboxDrain:
    await box.bench.soon(box.port.seal(box.ref))
    return await box.bench.soon(box.port.drain(box.ref))


def descendants() -> list[str]:
    """Sandboxes' processes that this process has started, by what they were called with."""
    found = []
    for child in psutil.Process().children(recursive=True):
        try:
            command = " ".join(child.cmdline())
        except psutil.Error:
            continue
        if command.startswith("tiltyard-sandbox-") or "/opt/supervisor" in command:
            found.append(command)
    return found


def mounts() -> list[str]:
    """Where something is mounted, as this process sees it, and what one of its threads has for single sandboxes.

    Those of containers are not of these sandboxes: their tests may run at the same time.
    """
    tables = [path.read_text().splitlines() for path in Path("/proc/self/task").glob("*/mountinfo")]
    volumes = [line.split()[4] for table in tables for line in table if "/volumes/" in line]
    places = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    return [place for place in places if not {"places", "merged", "netns"} & {*Path(place).parts}] + volumes


async def until(holds: Any, what: str, within_s: float = 30) -> None:
    """Wait until a condition holds that nothing tells of."""
    async with asyncio.timeout(within_s):
        while not holds():
            await asyncio.sleep(0.02)
    assert holds(), what
