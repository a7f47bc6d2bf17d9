"""Sandboxes in memory, for tests of whatever uses the port: the same promises, a little shell, and no process."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Mapping
from types import MappingProxyType

from schemas.host import Capacity
from schemas.operation import ExecRequest, SandboxReply, SandboxRequest, request_digest
from schemas.sandbox import DriverName, SandboxOffer, SandboxOrder, SandboxRecord, SandboxRef, Snapshot, WorldAccess
from schemas.sandbox_facts import SandboxDrain, SandboxFacts
from tiltyard.errors import DeliveryConflict, LateWrite, SandboxLost, SandboxUnavailable, SandboxUnreachable
from tiltyard.testing.gated_world import Gate
from tiltyard.testing.little_shell import Program
from tiltyard.testing.memory_box import HELD, SEES, MemoryBox

__all__ = ["MemorySandboxes"]

NO_PROGRAMS: Mapping[str, Program] = MappingProxyType({})
NO_PROBLEMS: Mapping[DriverName, str] = MappingProxyType({})


class MemorySandboxes:
    """Implements ``tiltyard.ports.Sandboxes``. Commands are scripts of ``tiltyard.testing.little_shell``.

    For tests: ``unreachable`` makes every method raise ``SandboxUnreachable``; ``lose`` makes a sandbox vanish;
    ``executions`` counts how often each operation really ran; a command comes to the gate ``started`` before it
    does anything and to ``ending`` when it has done everything and its outcome is not recorded yet. ``problems``
    says which drivers do not work. ``programs`` are commands besides those of the shell. ``strays`` is how many
    things a sweep will find.
    """

    box_kind: type[MemoryBox] = MemoryBox

    def __init__(
        self,
        slots: int = 1000,
        programs: Mapping[str, Program] = NO_PROGRAMS,
        problems: Mapping[DriverName, str] = NO_PROBLEMS,
    ) -> None:
        self.unreachable = False
        self.strays = 0
        self.executions: Counter[str] = Counter()
        self.started, self.ending = Gate(), Gate()
        self._slots, self._free = slots, asyncio.Semaphore(slots)
        self._programs, self._problems = programs, problems
        self._boxes: dict[str, MemoryBox] = {}
        self._highest: Counter[str] = Counter()
        self._provisioning: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    def lose(self, name: str, loss: type[SandboxLost] = SandboxLost) -> None:
        """The sandbox vanishes with its processes and files; its episode has not given it up."""
        self._boxes[name].end(loss)

    async def offer(self, driver: DriverName) -> SandboxOffer:
        self._require_reachable()
        problem = self._problems.get(driver, "")
        fix = "take another driver" if problem else ""
        return SandboxOffer(
            driver=driver,
            available=not problem,
            problem=problem,
            fix=fix,
            enforced=HELD,
            sees=SEES,
            slots=self._slots,
        )

    async def provision(self, order: SandboxOrder) -> SandboxRef:
        self._require_reachable()
        if problem := self._problems.get(order.driver):
            raise SandboxUnavailable(f"{order.driver}: {problem}")
        async with self._provisioning[order.name]:
            box = self._boxes.get(order.name)
            if box is not None and box.order.incarnation == order.incarnation:
                return self._live(box.ref).ref
            if order.incarnation <= self._highest[order.name]:
                raise SandboxLost(f"{order.name}/{order.incarnation} was there, and is gone")
            if box is not None:
                await self.release(box.ref)
            await self._free.acquire()
            return self._made(order).ref

    def _made(self, order: SandboxOrder) -> MemoryBox:
        try:
            box = self.box_kind(order, self.started, self.ending, self._programs)
        except BaseException:
            self._free.release()
            raise
        self._boxes[order.name] = box
        self._highest[order.name] = order.incarnation
        return box

    async def connect(self, sandbox: SandboxRef, access: WorldAccess) -> None:
        self._live(sandbox).access = access

    async def call(self, sandbox: SandboxRef, request: SandboxRequest) -> SandboxReply:
        box = self._live(sandbox)
        operation = box.operations.get(request.op_id)
        if operation is not None and operation.digest != request_digest(request):
            raise DeliveryConflict(f"{request.op_id} was asked before with another request")
        if operation is None:
            if box.state == "sealed":
                box.refused += 1
                raise LateWrite(f"{request.op_id} came after the seal")
            operation = box.accept(request)
            self.executions[request.op_id] += 1
        if isinstance(request, ExecRequest):
            await asyncio.wait([operation.outcome])
        self._require_reachable()
        return operation.outcome.result()

    async def snapshot(self, sandbox: SandboxRef, known: Mapping[str, str]) -> Snapshot:
        return self._live(sandbox).files.snapshot(known)

    async def settle(self, sandbox: SandboxRef, limit_s: float) -> bool:
        box = self._live(sandbox)
        try:
            async with asyncio.timeout(limit_s):
                while tasks := box.tasks():
                    await asyncio.wait(tasks)
        except TimeoutError:
            self._live(sandbox)
            return False
        self._live(sandbox)
        return True

    async def seal(self, sandbox: SandboxRef) -> None:
        self._live(sandbox).seal()

    async def drain(self, sandbox: SandboxRef) -> SandboxDrain:
        box = self._boxes.get(sandbox.name)
        if box is not None and box.ref == sandbox and box.drained is not None:
            return box.drained  # also of one that was lost since
        return await self._live(sandbox).drain()

    async def facts(self, sandbox: SandboxRef) -> SandboxFacts:
        box = self._boxes.get(sandbox.name)
        if box is not None and box.ref == sandbox and box.state == "lost":
            self._require_reachable()
            return box.testimony()
        return self._live(sandbox).facts()

    async def release(self, sandbox: SandboxRef) -> None:
        self._require_reachable()
        box = self._boxes.get(sandbox.name)
        if box is not None and box.ref.incarnation == sandbox.incarnation:
            box.end()
            del self._boxes[sandbox.name]
            self._free.release()

    async def sandboxes(self) -> tuple[SandboxRecord, ...]:
        self._require_reachable()
        return tuple(
            SandboxRecord(ref=box.ref, owner=box.order.owner, episode_id=box.order.episode_id, state=box.state)
            for _, box in sorted(self._boxes.items())
        )

    async def capacity(self) -> Capacity:
        self._require_reachable()
        return Capacity(slots=self._slots, free=max(0, self._slots - len(self._boxes)))

    async def sweep(self) -> int:
        self._require_reachable()
        ended, self.strays = self.strays, 0
        return ended

    def _require_reachable(self) -> None:
        if self.unreachable:
            raise SandboxUnreachable("the host of the sandboxes does not answer")

    def _live(self, sandbox: SandboxRef) -> MemoryBox:
        self._require_reachable()
        box = self._boxes.get(sandbox.name)
        if box is None or box.ref != sandbox or box.state == "lost":
            loss = box.loss if box is not None and box.ref == sandbox else SandboxLost
            raise loss(f"{sandbox.name}/{sandbox.incarnation} is gone")
        return box
