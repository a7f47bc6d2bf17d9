"""Sandboxes that break one promise each. The kit has to notice every one of them."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from schemas.host import Capacity
from schemas.operation import SandboxReply, SandboxRequest
from schemas.sandbox import FileEntry, SandboxOffer, SandboxOrder, SandboxRecord, SandboxRef, Snapshot
from schemas.sandbox_facts import SandboxDrain, SandboxFacts
from tiltyard.errors import SandboxLost
from tiltyard.testing.memory_box import MemoryBox
from tiltyard.testing.memory_sandboxes import MemorySandboxes

Kind = type[MemorySandboxes]


def telling(change: Callable[[SandboxReply], dict[str, Any]]) -> Kind:
    """Changes what a command is said to have done."""

    class Telling(MemorySandboxes):
        async def call(self, sandbox: SandboxRef, request: SandboxRequest) -> SandboxReply:
            reply = await super().call(sandbox, request)
            return reply if reply.exec is None else with_result(reply, change(reply))

    return Telling


def with_result(reply: SandboxReply, fields: dict[str, Any]) -> SandboxReply:
    assert reply.exec is not None
    return reply.model_copy(update={"exec": reply.exec.model_copy(update=fields)})


def outputs_mixed_up(reply: SandboxReply) -> dict[str, Any]:
    assert reply.exec is not None
    return {"stdout": reply.exec.stderr, "stderr": reply.exec.stdout}


def without_its_end(reply: SandboxReply) -> dict[str, Any]:
    assert reply.exec is not None
    out = reply.exec.stdout
    return {"stdout": out.model_copy(update={"text": out.text[: out.total_bytes - out.cut_bytes]})}


def taken_for_text(reply: SandboxReply) -> dict[str, Any]:
    assert reply.exec is not None
    return {"stdout": reply.exec.stdout.model_copy(update={"invalid_utf8": False})}


def all_ended(facts: SandboxFacts) -> dict[str, Any]:
    return {"commands": tuple(one.model_copy(update={"ended": True}) for one in facts.commands)}


def each(told: tuple[Any, ...], **changed: Any) -> tuple[Any, ...]:
    """The same records, each with something else in it."""
    return tuple(one.model_copy(update=changed) for one in told)


def asking(change: Callable[[Any], dict[str, Any]]) -> Kind:
    """Does something else than it was asked to."""

    class Asking(MemorySandboxes):
        async def call(self, sandbox: SandboxRef, request: SandboxRequest) -> SandboxReply:
            return await super().call(sandbox, request.model_copy(update=change(request)))

    return Asking


def ordering(change: Callable[[SandboxOrder], dict[str, Any]]) -> Kind:
    """Makes another sandbox than was ordered."""

    class Ordering(MemorySandboxes):
        async def provision(self, order: SandboxOrder) -> SandboxRef:
            return await super().provision(order.model_copy(update=change(order)))

    return Ordering


def forgetting(forgotten: Callable[[SandboxRequest, bool], bool]) -> Kind:
    """Drops the receipts of some requests (told with whether they have ended), so that they run again."""

    class Forgetting(MemorySandboxes):
        async def call(self, sandbox: SandboxRef, request: SandboxRequest) -> SandboxReply:
            operations = self._boxes[sandbox.name].operations
            earlier = operations.get(request.op_id)
            if earlier is not None and forgotten(request, earlier.outcome.done()):
                del operations[request.op_id]
            return await super().call(sandbox, request)

    return Forgetting


def showing(change: Callable[[FileEntry], dict[str, Any] | None]) -> Kind:
    """Copies files out in another form, or not at all (``None``)."""

    class Showing(MemorySandboxes):
        async def snapshot(self, sandbox: SandboxRef, known: Mapping[str, str]) -> Snapshot:
            shown = [(one, change(one)) for one in (await super().snapshot(sandbox, known)).entries]
            return Snapshot(entries=tuple(one.model_copy(update=new) for one, new in shown if new is not None))

    return Showing


def made_with(change: Callable[[MemorySandboxes, MemoryBox, MemoryBox | None], None]) -> Kind:
    """Changes a sandbox that was just made; told with the one that had its name before."""

    class Made(MemorySandboxes):
        async def provision(self, order: SandboxOrder) -> SandboxRef:
            before = self._boxes.get(order.name)
            ref = await super().provision(order)
            if self._boxes[order.name] is not before:
                change(self, self._boxes[order.name], before)
            return ref

    return Made


def files_of_the_first(port: MemorySandboxes, box: MemoryBox, before: MemoryBox | None) -> None:
    box.files = next(iter(port._boxes.values())).files


def files_of_the_last(port: MemorySandboxes, box: MemoryBox, before: MemoryBox | None) -> None:
    box.files = before.files if before else box.files


def receipts_of_the_last(port: MemorySandboxes, box: MemoryBox, before: MemoryBox | None) -> None:
    box.operations = before.operations if before else {}


def something_is_left(port: MemorySandboxes, box: MemoryBox, before: MemoryBox | None) -> None:
    box.files.write("left", b"by somebody else")


class OffersNoSlot(MemorySandboxes):
    async def offer(self, driver: Any) -> SandboxOffer:
        return (await super().offer(driver)).model_copy(update={"slots": 0})


class AlwaysMakesAnew(MemorySandboxes):
    async def provision(self, order: SandboxOrder) -> SandboxRef:
        await self.release(SandboxRef(driver=order.driver, name=order.name, incarnation=order.incarnation))
        self._highest[order.name] = 0
        return await super().provision(order)


class ForgetsWhatWasThere(MemorySandboxes):
    async def release(self, sandbox: SandboxRef) -> None:
        await super().release(sandbox)
        self._highest[sandbox.name] = 0


class ListsAllAsLive(MemorySandboxes):
    async def sandboxes(self) -> tuple[SandboxRecord, ...]:
        return tuple(one.model_copy(update={"state": "live"}) for one in await super().sandboxes())


class TakesAnyIncarnation(MemorySandboxes):
    def _live(self, sandbox: SandboxRef) -> MemoryBox:
        box = self._boxes.get(sandbox.name)
        return super()._live(box.ref if box else sandbox)


class ReleasesAnyIncarnation(MemorySandboxes):
    async def release(self, sandbox: SandboxRef) -> None:
        box = self._boxes.get(sandbox.name)
        await super().release(box.ref if box else sandbox)


class GuessesWhatIsUnknown(MemorySandboxes):
    async def call(self, sandbox: SandboxRef, request: SandboxRequest) -> SandboxReply:
        try:
            return await super().call(sandbox, request)
        except SandboxLost:
            return SandboxReply(op_id=request.op_id)


class SealsWhatIsNotThere(MemorySandboxes):
    async def seal(self, sandbox: SandboxRef) -> None:
        if sandbox.name in self._boxes:
            await super().seal(sandbox)


class NeverWaits(MemorySandboxes):
    async def settle(self, sandbox: SandboxRef, limit_s: float) -> bool:
        return not self._live(sandbox).tasks()


class IsAlwaysSettled(MemorySandboxes):
    async def settle(self, sandbox: SandboxRef, limit_s: float) -> bool:
        self._live(sandbox)
        return True


class CountsNothingLate(MemorySandboxes):
    async def drain(self, sandbox: SandboxRef) -> SandboxDrain:
        return (await super().drain(sandbox)).model_copy(update={"refused": 0})


class ReportsNothing(MemorySandboxes):
    async def drain(self, sandbox: SandboxRef) -> SandboxDrain:
        await super().drain(sandbox)
        return SandboxDrain()


class CountsItself(MemorySandboxes):
    async def drain(self, sandbox: SandboxRef) -> SandboxDrain:
        drain = await super().drain(sandbox)
        return drain.model_copy(update={"found": drain.found + 1})


class _LiesAboutEmpty(MemoryBox):
    async def drain(self) -> SandboxDrain:
        found = len(self.tasks())
        self.drained = self.drained or SandboxDrain(found=found, ended_by_term=found, refused=self.refused)
        return self.drained


class LiesAboutEmpty(MemorySandboxes):
    box_kind = _LiesAboutEmpty


def stating(change: Callable[[SandboxFacts], dict[str, Any]]) -> Kind:
    """Says something else of the episode than what was."""

    class Stating(MemorySandboxes):
        async def facts(self, sandbox: SandboxRef) -> SandboxFacts:
            facts = await super().facts(sandbox)
            return facts.model_copy(update=change(facts))

    return Stating


class SaysThatThereIsRoom(MemorySandboxes):
    async def capacity(self) -> Capacity:
        told = await super().capacity()
        return told.model_copy(update={"free": max(1, told.free)})


class SweepsAwayWhatIsThere(MemorySandboxes):
    async def sweep(self) -> int:
        for name in list(self._boxes):
            self.lose(name)
        return len(self._boxes)


class SweepsAwayWhatIsSealed(MemorySandboxes):
    async def sweep(self) -> int:
        sealed = [box.ref for box in self._boxes.values() if box.state == "sealed"]
        for ref in sealed:
            await self.release(ref)
        return len(sealed)


class HasMoreThanItOffers(MemorySandboxes):
    def __init__(self, slots: int) -> None:
        super().__init__(slots)
        self._free = asyncio.Semaphore(slots + 1)
