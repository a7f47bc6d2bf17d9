"""The bubblewrap driver: sandboxes in namespaces of their own, without a daemon and without root.

One thread starts all of them. Linux ends a sandbox when the thread that started it ends (``--die-with-parent``), so
that thread lives as long as the launcher; and root's has mounts of its own.
"""

import asyncio
import shutil
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from threading import Lock
from typing import NamedTuple

from infra.sandboxes import boxed, judging, looking, stage, trying
from infra.sandboxes.boxed import BoxedSandbox
from infra.sandboxes.cgroups import ControlGroups, find_groups
from infra.sandboxes.diagnosis import INSTEAD, diagnose, platform_problem
from infra.sandboxes.interpreter import Interpreter, interpreters
from infra.sandboxes.passing import may_pass
from infra.sandboxes.seeing import told_here
from infra.sandboxes.stage import Stage
from infra.sandboxes.starting import StartFailed, begin, finish
from infra.sandboxes.volumes import volumes_of
from schemas.sandbox import DriverName, Enforced, SandboxOffer, SandboxOrder, services_of
from tiltyard.errors import EnvironmentFailed, SandboxUnavailable


class Means(NamedTuple):
    """What sandboxes are made with on this machine, and what holds them."""

    stage: Stage
    groups: ControlGroups
    enforced: tuple[Enforced, ...]


class Works(NamedTuple):
    """What was found once it worked, and the thread that starts sandboxes."""

    thread: ThreadPoolExecutor
    means: Means
    offer: SandboxOffer


FAILURES = (StartFailed, OSError, subprocess.SubprocessError)
"""How a trial fails, for want of something or for an error that passes."""


class BubblewrapLauncher:
    """Implements ``Launcher``. ``folder`` is for what all its sandboxes share, if we are not root: it is emptied.
    ``pythons`` are tried in their order.

    Its sandboxes end with it (``close``), and with the process.
    """

    driver: DriverName = "bubblewrap"

    def __init__(self, folder: Path, pythons: Sequence[Interpreter] | None = None) -> None:
        self._folder = folder
        self._pythons = pythons
        self._trying = Lock()
        self._works: Works | None = None

    def offer(self) -> SandboxOffer:
        """Whether it works here, found by making a sandbox and looking around in it. That it works is found once;
        where it does not, it is tried again each time.

        Raises ``EnvironmentFailed`` when an error that passes has left it open.
        """
        with self._trying:
            return self._works.offer if self._works else self._try()

    async def launch(self, order: SandboxOrder, folder: Path) -> BoxedSandbox:
        """A sandbox whose supervisor waits."""
        works = self._works
        if works is None:
            works = await asyncio.to_thread(self._require)
        in_thread = partial(asyncio.get_running_loop().run_in_executor, works.thread)
        try:
            means, names = works.means, services_of(order)
            begun = await in_thread(begin, means.stage, means.groups, order.limits, folder, None, names)
            try:
                return await asyncio.to_thread(finish, begun)
            finally:
                if begun.volumes:
                    await in_thread(begun.volumes.unmount)
        except StartFailed as error:
            raise EnvironmentFailed(f"the sandbox did not start: {error}") from error

    async def find(self, identity: dict[str, object]) -> None:
        """None outlives its host."""

    def sweep(self, identity: dict[str, object]) -> bool:
        """End what is left of a sandbox of an earlier process, whatever is known of it."""
        return boxed.sweep(identity)

    def strays(self) -> int:
        """Control groups of hosts that are gone, and of starts that failed. All else ends with the thread that made
        it."""
        return self._works.means.groups.remove_orphans() if self._works else 0

    def close(self) -> None:
        """End the thread that starts sandboxes, and with it all of them, and empty the folder. Nothing is started
        any more."""
        with self._trying:
            if self._works:
                self._works.thread.shutdown()
        for folder in (self._folder, stage.open_folder(self._folder)):
            shutil.rmtree(folder, ignore_errors=True)

    def _require(self) -> Works:
        offer = self.offer()
        if self._works is None:
            raise SandboxUnavailable(f"{offer.problem}; {offer.fix}")
        return self._works

    def _try(self) -> SandboxOffer:
        """In a thread that is kept if it works; what a trial has mounted in vain goes with its thread."""
        if problem := platform_problem():
            return self._refused(*problem)
        told = told_here()
        thread = ThreadPoolExecutor(1, thread_name_prefix="bubblewrap")
        try:
            means = thread.submit(_find_means, self._folder, self._pythons).result()
        except BaseException as error:
            thread.shutdown()
            if isinstance(error, SandboxUnavailable):
                return self._refused(str(error), f"do that, {INSTEAD}")
            if not isinstance(error, FAILURES):
                raise
            if may_pass(error):
                raise EnvironmentFailed(f"bubblewrap could not be tried out: {error}") from error
            return self._refused(*diagnose(str(error)))
        sees = (*told, *(("control_groups",) if means.groups.enforced else ()))
        offer = SandboxOffer(driver=self.driver, available=True, enforced=means.enforced, sees=sees)
        self._works = Works(thread, means, offer)
        return offer

    def _refused(self, problem: str, fix: str) -> SandboxOffer:
        return SandboxOffer(driver=self.driver, available=False, problem=problem, fix=fix)


def _find_means(folder: Path, pythons: Sequence[Interpreter] | None) -> Means:
    """In the thread. Raises ``SandboxUnavailable``, and the first of ``FAILURES`` if no other Python mends it."""
    if not looking.is_told():
        raise SandboxUnavailable("this kernel does not tell who started whom: it needs CONFIG_PROC_CHILDREN")
    place, groups = stage.prepare(folder), find_groups()
    groups.remove_orphans()
    failure: Exception | None = None
    for interpreter in pythons or interpreters():
        try:
            return _means(stage.build(place, interpreter), groups, folder)
        except FAILURES as error:
            if may_pass(error):
                raise
            failure = failure or error
    raise failure or SandboxUnavailable("there is no python3: install one into /usr")


def _means(built: Stage, groups: ControlGroups, folder: Path) -> Means:
    """Try it with control groups, and where processes cannot be put into them without.

    Raises ``StartFailed`` for what is no sandbox.
    """
    try:
        told = trying.look_around(built, groups, folder)
    except PermissionError:
        groups = ControlGroups(())
        told = trying.look_around(built, groups, folder)
    if lacks := judging.lacking(told):
        raise StartFailed(f"a sandbox was made that lacks: {lacks}")
    return Means(built, groups, judging.enforced(told, groups.enforced, volumes_of(trying.LIMITS)))
