"""What an earlier host process has left, by its records: taken over where it still runs, and ended where not."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from types import MappingProxyType

from infra.sandboxes import records
from infra.sandboxes.held import HeldSandbox
from infra.sandboxes.launching import Launcher
from infra.sandboxes.records import Kept, folder_of
from infra.sandboxes.threads import in_thread
from schemas.sandbox import DriverName

log = logging.getLogger(__name__)

AT_ONCE = 8
"""How many are looked at at a time: most of it is waiting for what was killed to go."""

Ends = Callable[[], Awaitable[bool]]
"""Ends what is left of a sandbox; whether nothing is left."""

Holds = Callable[[Kept, Path, Ends], HeldSandbox]
"""Makes the sandbox of a record that the new host holds."""


class Inheritance:
    """The sandboxes of the hosts before this one, in ``folder``.

    ``unknown`` are folders of which nobody can name the sandbox, and with something left that could not be ended.
    """

    def __init__(self, launchers: Mapping[DriverName, Launcher], folder: Path) -> None:
        self._launchers, self._folder = launchers, folder
        self.unknown: set[Path] = set()

    async def found(self, holds: Holds) -> list[HeldSandbox]:
        """All that somebody had: those that go on, and the others as lost. Whatever else there is is ended."""
        gate = asyncio.Semaphore(AT_ONCE)

        async def one(folder: Path, kept: Kept | None) -> HeldSandbox | None:
            async with gate:
                return await self._inherited(folder, kept, holds)

        all_of_them = await asyncio.gather(*(one(*left) for left in list(records.found(self._folder))))
        return [held for held in all_of_them if held is not None]

    async def end_unknown(self) -> int:
        """Try again to end what nobody can name; how much of it is gone now."""
        before = len(self.unknown)
        for folder in sorted(self.unknown):
            await self._end_unknown(folder)
        return before - len(self.unknown)

    async def _inherited(self, folder: Path, kept: Kept | None, holds: Holds) -> HeldSandbox | None:
        if kept is None or kept.ref.driver not in self._launchers or folder != folder_of(self._folder, kept.ref):
            log.warning("the record in %s is none of a sandbox here: whatever belongs to it is ended", folder)
            self.unknown.add(folder)
            await self._end_unknown(folder)
            return None
        held = holds(kept, folder, remains(self._launchers[kept.ref.driver], folder, kept.identity))
        if kept.state == "making":
            return None if await held.give_up() else held
        if not await self._goes_on(held):
            await held.lose("its host has ended")
        return held

    async def _end_unknown(self, folder: Path) -> None:
        """End whatever belongs to a folder, by whichever driver."""
        if all([await remains(launcher, folder)() for launcher in self._launchers.values()]):
            records.remove(folder)
            self.unknown.discard(folder)

    async def _goes_on(self, held: HeldSandbox) -> bool:
        """Whether it has outlived its host, and is ours from now on."""
        launcher = self._launchers[held.ref.driver]
        try:
            launched = await launcher.find(held.kept.identity) if held.kept.state != "lost" else None
            if launched is None:
                return False
            await held.attach(launched)
        except Exception:  # whatever a damaged record leads to, the host starts
            log.exception("the sandbox in %s cannot be asked any more", held.folder)
            return False
        return True


def remains(launcher: Launcher, folder: Path, identity: Mapping[str, object] = MappingProxyType({})) -> Ends:
    """Ends what is left of a sandbox that is known by its record only."""

    async def end() -> bool:
        try:
            known = {**identity, "folder": str(folder)}
            return await in_thread(lambda: launcher.sweep(known))
        except Exception:  # whatever a damaged record leads to, the host starts
            log.exception("what is left of the sandbox in %s cannot be ended", folder)
            return False

    return end
