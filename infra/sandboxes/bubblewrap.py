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
from typing import NamedTuple

from infra.sandboxes import boxed, judging, looking, stage, trying
from infra.sandboxes.boxed import BoxedSandbox
from infra.sandboxes.cgroups import ControlGroups, find_groups
from infra.sandboxes.diagnosis import INSTEAD, diagnose, platform_problem
from infra.sandboxes.interpreter import Interpreter, interpreters
from infra.sandboxes.stage import Stage
from infra.sandboxes.starting import Begun, StartFailed, begin, finish
from infra.sandboxes.volumes import volumes_of
from schemas.sandbox import DriverName, Enforced, SandboxOffer, SandboxOrder
from tiltyard.errors import SandboxUnavailable


class Means(NamedTuple):
    """What sandboxes are made with on this machine, and what holds them."""

    stage: Stage
    groups: ControlGroups
    enforced: tuple[Enforced, ...]


class BubblewrapLauncher:
    """Implements ``Launcher``. ``folder`` is for what all its sandboxes share, if we are not root: it is emptied.
    ``pythons`` are tried in their order.

    Its sandboxes end with it (``close``), and with the process.
    """

    driver: DriverName = "bubblewrap"

    def __init__(self, folder: Path, pythons: Sequence[Interpreter] | None = None) -> None:
        self._folder = folder
        self._pythons = pythons
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="bubblewrap")
        self._means: Means | None = None
        self._offer: SandboxOffer | None = None

    def offer(self) -> SandboxOffer:
        """Whether it works here, found by making a sandbox and looking around in it, once."""
        return self._offer or self._thread.submit(self._tried).result()

    async def launch(self, order: SandboxOrder, folder: Path) -> BoxedSandbox:
        """A sandbox whose supervisor waits. Raises ``SandboxUnavailable``."""
        in_thread = partial(asyncio.get_running_loop().run_in_executor, self._thread)
        begun = await in_thread(self._begin, order, folder)
        try:
            return await asyncio.to_thread(finish, begun)
        except (StartFailed, OSError) as error:
            raise _did_not_start(error) from error
        finally:
            if begun.volumes:
                await in_thread(begun.volumes.unmount)

    def sweep(self, identity: dict[str, object]) -> bool:
        """End what is left of a sandbox of an earlier process, whatever is known of it."""
        return boxed.sweep(identity)

    def close(self) -> None:
        """End the thread that starts sandboxes, and with it all of them, and empty the folder. Nothing is started
        any more."""
        self._thread.shutdown()
        for folder in (self._folder, stage.open_folder(self._folder)):
            shutil.rmtree(folder, ignore_errors=True)

    def _begin(self, order: SandboxOrder, folder: Path) -> Begun:
        offer = self._tried()
        if self._means is None:
            raise SandboxUnavailable(f"{offer.problem}; {offer.fix}")
        try:
            return begin(self._means.stage, self._means.groups, order.limits, folder)
        except OSError as error:
            raise _did_not_start(error) from error

    def _tried(self) -> SandboxOffer:
        """In the thread. The first call finds the means, or why there are none."""
        if self._offer is None:
            problem = platform_problem()
            try:
                self._means = None if problem else self._find_means()
            except SandboxUnavailable as error:
                problem = str(error), f"do that, {INSTEAD}"
            except (StartFailed, OSError, subprocess.SubprocessError) as error:
                problem = diagnose(str(error))
            self._offer = SandboxOffer(
                driver=self.driver,
                available=self._means is not None,
                problem=problem[0] if problem else "",
                fix=problem[1] if problem else "",
                enforced=self._means.enforced if self._means else (),
            )
        return self._offer

    def _find_means(self) -> Means:
        if not looking.is_told():
            raise SandboxUnavailable("this kernel does not tell who started whom: it needs CONFIG_PROC_CHILDREN")
        place, groups = stage.prepare(self._folder), find_groups()
        groups.remove_orphans()
        failure: Exception | None = None
        for interpreter in self._pythons or interpreters():
            try:
                built = stage.build(place, interpreter)
                return _means(built, groups, self._folder)
            except (StartFailed, OSError, subprocess.SubprocessError) as error:
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


def _did_not_start(error: Exception) -> SandboxUnavailable:
    return SandboxUnavailable(f"the sandbox did not start: {error}")
