"""The host of sandboxes: the ``Sandboxes`` port over the drivers of one machine.

The sandboxes of most drivers belong to the process that this runs in. What an earlier process left of them is ended
at the start, and they are told as lost until their episodes give them up. Those of others are asked again.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Coroutine, Iterable, Mapping
from pathlib import Path
from typing import Self, TypeVar

from infra.sandboxes import records
from infra.sandboxes.held import HeldSandbox
from infra.sandboxes.inheritance import Ends, Inheritance, remains
from infra.sandboxes.inside import Worlds
from infra.sandboxes.launching import Launcher
from infra.sandboxes.making import Making
from infra.sandboxes.patience import PATIENCE, Patience
from infra.sandboxes.records import Kept, folder_of, ref_of
from infra.sandboxes.slots import Slots
from infra.sandboxes.testimony import Reached
from infra.sandboxes.threads import in_thread
from schemas.host import Capacity
from schemas.operation import SandboxReply, SandboxRequest
from schemas.sandbox import DriverName, SandboxOffer, SandboxOrder, SandboxRecord, SandboxRef, Snapshot, WorldAccess
from schemas.sandbox_facts import SandboxDrain, SandboxFacts
from tiltyard.errors import EnvironmentFailed, SandboxLost, SandboxUnavailable

log = logging.getLogger(__name__)

T = TypeVar("T")

REMEMBERED = 100_000
"""Names of sandboxes that are gone whose incarnations are refused. A request that is late by more than so many
episodes would make a sandbox that the janitor takes away."""


class SandboxHost:
    """Implements ``tiltyard.ports.Sandboxes``; an asynchronous context manager. ``folder`` is its own.

    A slot is held from provision to release, also by a lost sandbox; the next incarnation of a name takes over that
    of the one before. A caller that is cancelled cancels nothing but its own waiting for a slot.
    """

    def __init__(
        self,
        launchers: Mapping[DriverName, Launcher],
        folder: Path,
        slots: int,
        patience: Patience = PATIENCE,
        worlds: Worlds | None = None,
    ) -> None:
        self._launchers, self._folder, self._patience, self._worlds = launchers, folder, patience, worlds
        self._free = Slots(slots)
        self._held: dict[SandboxRef, HeldSandbox] = {}
        self._making: dict[str, Making] = {}
        self._gone: OrderedDict[str, int] = OrderedDict()
        self._tasks: set[asyncio.Task[object]] = set()
        self._offers: dict[DriverName, asyncio.Task[SandboxOffer]] = {}
        self._inheritance = Inheritance(launchers, folder)
        self._sweeping = asyncio.Lock()

    async def __aenter__(self) -> Self:
        for held in await self._inheritance.found(self._holding):
            self._held[held.ref] = held
            if held.kept.state != "lost" and not self._free.locked():
                await self._free.acquire()
                held.has_slot = True
        return self

    async def __aexit__(self, *_: object) -> None:
        """Every sandbox is killed; the records stay, so that the next host tells their episodes."""
        for making in list(self._making.values()):
            making.leave_queue()
            await making.over()
        await asyncio.gather(*(held.lose("its host ends") for held in self._held.values()))
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def offer(self, driver: DriverName) -> SandboxOffer:
        """All who ask at once share one trial. Only that a driver works is kept: what is wrong may be mended."""
        if driver not in self._launchers:
            return no_driver(driver, self._launchers)
        if driver not in self._offers:
            trial = self._offers[driver] = self._tracked(asyncio.to_thread(self._launchers[driver].offer))
            trial.add_done_callback(lambda done: _works(done) or self._offers.pop(driver))
        offer = await asyncio.shield(self._offers[driver])
        return offer.model_copy(update={"slots": self._free.capacity.slots})

    async def provision(self, order: SandboxOrder) -> SandboxRef:
        ref = ref_of(order)
        offer = await self.offer(order.driver)
        if not offer.available:
            raise SandboxUnavailable(f"{order.driver}: {offer.problem}; {offer.fix}".rstrip("; "))
        while (making := self._making.get(ref.name)) and making.ref == ref and making.unwanted:
            await making.over()  # all who asked have gone, and now somebody asks again
        if making is None or making.ref != ref:
            if ref in self._held:
                self._held[ref].require_there()
                return ref
            making = self._begin(order, ref, making)
        await making.made()
        return ref

    def _begin(self, order: SandboxOrder, ref: SandboxRef, before: Making | None) -> Making:
        """Start making it, unless it is too late for it."""
        if ref.incarnation <= self._newest(ref.name):
            raise SandboxLost(f"the sandbox {ref.name}/{ref.incarnation} was there, and is gone")
        if (folder := folder_of(self._folder, ref)) in self._inheritance.unknown:
            raise EnvironmentFailed(f"something of an earlier sandbox is left in {folder}")
        making = self._making[ref.name] = Making(ref)
        making.start(self._make(making, order, before))
        return making

    def _newest(self, name: str) -> int:
        """The highest incarnation of the name that is or was there, or is being made."""
        there = [ref.incarnation for ref in self._held if ref.name == name]
        coming = [self._making[name].ref.incarnation] if name in self._making else []
        return max(0, self._gone.get(name, 0), *there, *coming)

    async def _make(self, making: Making, order: SandboxOrder, before: Making | None) -> None:
        try:
            earlier = await self._reached(order.name)
            has_slot = await self._discard_lower(making.ref, before)
            if not has_slot:
                await making.take(self._free)
            await self._launch(order, earlier)
        finally:
            if self._making.get(order.name) is making:
                del self._making[order.name]

    async def _reached(self, name: str) -> Reached:
        """What was reached for in all incarnations so far: it is not forgotten with them."""
        there = [held for held in self._held.values() if held.ref.name == name]
        return await max(there, key=lambda held: held.ref.incarnation).reached() if there else Reached()

    async def _discard_lower(self, ref: SandboxRef, before: Making | None) -> bool:
        """End the lower incarnations of the name; whether the slot of one is ours now."""
        if before is not None:
            before.leave_queue()
            await before.over()
        slots = 0
        for older in [held for held in self._held.values() if held.ref.name == ref.name]:
            slots += await self._give_up(older)
        for _ in range(slots - 1):
            self._free.release()
        return slots > 0

    async def _launch(self, order: SandboxOrder, earlier: Reached) -> None:
        """Make the sandbox in the slot that was taken for it, which it keeps or gives back."""
        launcher, folder = self._launchers[order.driver], folder_of(self._folder, ref_of(order))
        held = HeldSandbox(Kept.of(order, earlier), folder, remains(launcher, folder), self._patience, self._worlds)
        held.has_slot = True
        try:
            records.remove(folder)
            held.now(enforced=(await self.offer(order.driver)).enforced)
            await held.attach(await launcher.launch(order, folder))
            await held.set_up(order)
        except BaseException as error:
            self._held[held.ref] = held
            if await self._give_up(held):
                self._free.release()
            if isinstance(error, SandboxLost | OSError):  # nobody has seen it: the same one may be made again
                raise EnvironmentFailed(f"the sandbox {order.name} could not be made: {error}") from error
            raise
        self._held[held.ref] = held

    async def connect(self, sandbox: SandboxRef, access: WorldAccess) -> None:
        self._find(sandbox).connect(access)

    async def call(self, sandbox: SandboxRef, request: SandboxRequest) -> SandboxReply:
        return await self._find(sandbox).call(request)

    async def snapshot(self, sandbox: SandboxRef, known: Mapping[str, str]) -> Snapshot:
        return await self._find(sandbox).answer(Snapshot, "snapshot", known=dict(known))

    async def settle(self, sandbox: SandboxRef, limit_s: float) -> bool:
        return (await self._find(sandbox).ask("settle", limit_s, limit_s=limit_s)).get("empty") is True

    async def seal(self, sandbox: SandboxRef) -> None:
        await self._to_its_end(self._find(sandbox).seal())

    async def drain(self, sandbox: SandboxRef) -> SandboxDrain:
        return await self._to_its_end(self._find(sandbox).drain())

    async def facts(self, sandbox: SandboxRef) -> SandboxFacts:
        return await self._find(sandbox).facts()

    async def release(self, sandbox: SandboxRef) -> None:
        await self._to_its_end(self._release(sandbox))

    async def sandboxes(self) -> tuple[SandboxRecord, ...]:
        return tuple(held.kept.told for _, held in sorted(self._held.items(), key=lambda one: one[0].name))

    async def sweep(self) -> int:
        """One at a time, and all of it whatever one driver says."""
        async with self._sweeping:
            ended = await self._inheritance.end_unknown()
            problems: list[EnvironmentFailed] = []
            for launcher in self._launchers.values():
                try:
                    ended += await in_thread(launcher.strays)
                except EnvironmentFailed as error:
                    problems.append(error)
        if ended:
            log.warning("ended what belonged to no sandbox: %d", ended)
        for problem in problems:
            raise problem
        return ended

    async def capacity(self) -> Capacity:
        return self._free.capacity

    async def _release(self, sandbox: SandboxRef) -> None:
        """From now on it is not made any more; what was begun is brought to an end first."""
        self._remember(sandbox)
        making = self._making.get(sandbox.name)
        if making is not None and making.ref == sandbox:
            making.leave_queue()
            await making.over()
        held = self._held.get(sandbox)
        if held is not None and await self._give_up(held):
            self._free.release()

    async def _give_up(self, held: HeldSandbox) -> bool:
        """End the sandbox and forget it; whether its slot is free now, for the caller to use or to give back.

        One of which something is left is kept as lost, with its slot.
        """
        if not await held.give_up():
            return False
        self._held.pop(held.ref, None)
        had_slot, held.has_slot = held.has_slot, False
        return had_slot

    def _remember(self, ref: SandboxRef) -> None:
        self._gone[ref.name] = max(ref.incarnation, self._gone.pop(ref.name, 0))
        if len(self._gone) > REMEMBERED:
            self._gone.popitem(last=False)

    def _find(self, sandbox: SandboxRef) -> HeldSandbox:
        held = self._held.get(sandbox)
        if held is None:
            raise SandboxLost(f"the sandbox {sandbox.name}/{sandbox.incarnation} is not there")
        return held

    def _holding(self, kept: Kept, folder: Path, ends: Ends) -> HeldSandbox:
        return HeldSandbox(kept, folder, ends, self._patience, self._worlds)

    async def _to_its_end(self, work: Coroutine[None, None, T]) -> T:
        """Do it, also when whoever asked is cancelled meanwhile."""
        return await asyncio.shield(self._tracked(work))

    def _tracked(self, work: Coroutine[None, None, T]) -> asyncio.Task[T]:
        """Work that the host's end waits for. Its failure is told to those who ask, if there are any."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
        return task


def _works(trial: asyncio.Task[SandboxOffer]) -> bool:
    """Whether a trial has ended, and well."""
    return not trial.cancelled() and not trial.exception() and trial.result().available


def no_driver(driver: DriverName, launchers: Iterable[DriverName]) -> SandboxOffer:
    """The offer of a driver that is not there."""
    others = " or ".join(f"`--sandbox {name}`" for name in launchers)
    return SandboxOffer(driver=driver, available=False, problem="it does not exist here", fix=f"use {others}")
