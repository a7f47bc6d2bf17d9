"""An error that passes costs a try, and neither an episode nor a driver."""

import errno
import os
import resource
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from io import FileIO
from pathlib import Path

import pytest

from infra.sandboxes.bubblewrap import BubblewrapLauncher
from infra.sandboxes.cgroups import Group, find_groups
from infra.sandboxes.host import SandboxHost
from infra.sandboxes.launching import Launched, Launcher
from infra.sandboxes.passing import PASSING, may_pass
from infra.sandboxes.starting import Begun, StartFailed, finish
from infra.sandboxes.unsafe_local import UnsafeLocalLauncher
from schemas.sandbox import SandboxOffer, SandboxOrder
from tiltyard.errors import EnvironmentFailed, SandboxUnavailable
from tiltyard.testing.sandbox_bench import SandboxBench

Want = Callable[[], AbstractContextManager[None]]


@contextmanager
def want_of(kind: int, most: int) -> Iterator[None]:
    """This process and those that it starts may have no more than so many."""
    before = resource.getrlimit(kind)
    resource.setrlimit(kind, (most, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(kind, before)


def no_file() -> AbstractContextManager[None]:
    return want_of(resource.RLIMIT_NOFILE, 0)


def one_process() -> AbstractContextManager[None]:
    """Root itself may have more; bwrap and what it makes may not."""
    return want_of(resource.RLIMIT_NPROC, 1)


class Starved:
    """A driver that lacks something at its first trial, its first launch, or both."""

    def __init__(self, launcher: Launcher, trial: Want = nullcontext, launch: Want = nullcontext) -> None:
        self._launcher, self.driver = launcher, launcher.driver
        self._wants = {"trial": trial, "launch": launch}

    def _want(self, of: str) -> AbstractContextManager[None]:
        return self._wants.pop(of, nullcontext)()

    def offer(self) -> SandboxOffer:
        with self._want("trial"):
            return self._launcher.offer()

    async def launch(self, order: SandboxOrder, folder: Path) -> Launched:
        with self._want("launch"):
            return await self._launcher.launch(order, folder)

    async def find(self, identity: dict[str, object]) -> Launched | None:
        return await self._launcher.find(identity)

    def sweep(self, identity: dict[str, object]) -> bool:
        return self._launcher.sweep(identity)

    def strays(self) -> int:
        return self._launcher.strays()


async def works_the_second_time(launcher: Launcher, folder: Path) -> None:
    async with SandboxHost({launcher.driver: launcher}, folder, slots=1) as host:
        bench = SandboxBench(host, launcher.driver)
        order = bench.order()
        with pytest.raises(EnvironmentFailed) as raised:
            await host.provision(order)
        assert not isinstance(raised.value, SandboxUnavailable), "which is never tried again"
        await host.release(await host.provision(order))


@pytest.mark.parametrize("want", [no_file, one_process])
async def test_a_launch_of_bubblewrap_is_tried_again(
    bubblewrap: BubblewrapLauncher, tmp_path: Path, want: Want
) -> None:
    await works_the_second_time(Starved(bubblewrap, launch=want), tmp_path / "boxes")


async def test_a_launch_without_isolation_is_tried_again(tmp_path: Path) -> None:
    await works_the_second_time(Starved(UnsafeLocalLauncher(), launch=no_file), tmp_path / "boxes")


@pytest.mark.parametrize("want", [no_file, one_process])
async def test_a_trial_of_bubblewrap_is_made_again(
    bubblewrap: BubblewrapLauncher, tmp_path: Path, want: Want
) -> None:
    launcher = BubblewrapLauncher(tmp_path / "stage")
    try:
        await works_the_second_time(Starved(launcher, trial=want), tmp_path / "boxes")
        assert launcher.offer() == bubblewrap.offer(), "it is not what it would have been"
    finally:
        launcher.close()


@pytest.mark.parametrize("told", [b"", b'{"child-pid": %d}\n' % os.getpid()], ids=["namespaces", "mounts"])
def test_a_program_that_hangs_may_do_better_another_time(tmp_path: Path, told: bytes) -> None:
    with ExitStack() as undo:
        (reads, tells), (waits, release) = os.pipe(), os.pipe()
        inner = [undo.enter_context(FileIO(fd, mode)) for fd, mode in ((reads, "r"), (waits, "r"), (release, "w"))]
        undo.callback(os.close, tells)
        os.write(tells, told)
        hangs = undo.enter_context(subprocess.Popen(["sleep", "1000"]))
        control, theirs = map(undo.enter_context, socket.socketpair())
        undo.enter_context(theirs)
        nothing = ExitStack()
        nothing.callback(hangs.kill)
        begun = Begun(hangs, control, inner[0], inner[1], inner[2], Group(()), tmp_path, None, False, nothing)
        with pytest.raises(TimeoutError) as raised:
            finish(begun, within_s=0.01)
        assert may_pass(raised.value)
        assert hangs.wait(30) == -signal.SIGKILL


def test_want_of_something_is_no_reason_to_do_without_control_groups() -> None:
    with no_file(), pytest.raises(OSError, match="Too many open files"):
        find_groups()


@pytest.mark.parametrize("number", PASSING)
def test_an_error_passes_whoever_tells_of_it(number: int) -> None:
    assert may_pass(OSError(number, "in other words"))
    assert may_pass(StartFailed(f"bwrap: Creating new namespace failed: {os.strerror(number)}"))


@pytest.mark.parametrize("number", [errno.EPERM, errno.EACCES, errno.ENOSPC, errno.ENOENT, errno.EROFS])
def test_what_a_machine_does_not_allow_does_not_pass(number: int) -> None:
    assert not may_pass(OSError(number, os.strerror(number)))
    assert not may_pass(StartFailed(f"bwrap: setting up uid map: {os.strerror(number)}"))
