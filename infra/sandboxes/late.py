"""A driver that is loaded when it is first used: some take longer to load than the host takes to start."""

import logging
from collections.abc import Callable
from pathlib import Path
from threading import Lock
from typing import Protocol

from infra.sandboxes.launching import Launched, Launcher
from infra.sandboxes.threads import in_thread
from schemas.sandbox import DriverName, SandboxOffer, SandboxOrder
from tiltyard.errors import SandboxUnavailable

log = logging.getLogger(__name__)


class Closable(Launcher, Protocol):
    """A launcher that has something to end with it."""

    def close(self) -> None: ...


class LateLauncher:
    """Implements ``Launcher`` with what ``load`` gives, which raises ``SandboxUnavailable`` where nothing can be
    used. ``used`` is a folder that has something in it as long as an earlier process may have left anything: else
    it is not loaded to look for that."""

    def __init__(self, driver: DriverName, load: Callable[[], Closable], used: Path) -> None:
        self.driver = driver
        self._load, self._used = load, used
        self._loaded: Closable | None = None
        self._loading = Lock()

    def offer(self) -> SandboxOffer:
        """That it cannot be loaded here is the offer of one that does not work."""
        try:
            launcher = self._launcher()
        except SandboxUnavailable as error:
            return SandboxOffer(driver=self.driver, available=False, problem=str(error), fix=error.fix)
        return launcher.offer()

    async def launch(self, order: SandboxOrder, folder: Path) -> Launched:
        return await (await in_thread(self._launcher)).launch(order, folder)

    async def find(self, identity: dict[str, object]) -> Launched | None:
        return await (await in_thread(self._launcher)).find(identity)

    def sweep(self, identity: dict[str, object]) -> bool:
        try:
            return self._launcher().sweep(identity)
        except SandboxUnavailable as error:
            log.warning("what may be left of a sandbox is left there: %s", error)
            return False

    def strays(self) -> int:
        return self._launcher().strays() if self._loaded or self._may_have_left() else 0

    def close(self) -> None:
        """Close it, where there is anything to end."""
        try:
            if self._loaded or self._may_have_left():
                self._launcher().close()
        except SandboxUnavailable as error:
            log.warning("what may be left of sandboxes is left to the next process: %s", error)

    def _may_have_left(self) -> bool:
        return self._used.is_dir() and any(self._used.iterdir())

    def _launcher(self) -> Closable:
        """One for all: whoever needs it while it is loaded waits."""
        with self._loading:
            if self._loaded is None:
                self._loaded = self._load()
            return self._loaded
