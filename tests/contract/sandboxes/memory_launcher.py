"""A driver without processes: a supervisor that is a task of this process, at the other end of a socket pair."""

import asyncio
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from infra.sandboxes.frames import frame_of, read_frame
from infra.sandboxes.launching import ITSELF, Renewal
from infra.sandboxes.records import JOURNAL
from infra.sandboxes.wire import failure_of
from schemas.operation import SandboxRequest
from schemas.sandbox import DriverName, SandboxLimits, SandboxOffer, SandboxOrder, Snapshot
from tiltyard.testing.memory_box import HELD, SEES
from tiltyard.testing.memory_sandboxes import MemorySandboxes

REQUEST: TypeAdapter[SandboxRequest] = TypeAdapter(SandboxRequest)

METHODS = {"setup": "_set_up"} | {do: do for do in ("ping", "call", "snapshot", "settle", "seal", "drain", "facts")}


class MemoryLauncher:
    """Implements ``Launcher``. ``places`` are the folders whose sandboxes are not gone yet, ``most`` how many
    they were at most.

    For tests: the supervisor never answers what is ``mute``, dies when asked what is in ``deadly``, and answers
    what is in ``says`` with that. ``stuck`` ones outlive a kill. ``problem`` makes it unavailable, ``open`` is
    raised by an offer, ``crash`` in the middle of a launch. ``trials`` counts the offers. Ends and sweeps call
    ``while_ending`` in the host's thread; ``at_once`` is how many of them there were at once at most. A launch has
    a place and nothing else at ``while_launching``. ``unsure`` is raised when it is to look for strays.
    """

    driver: DriverName = "bubblewrap"

    def __init__(self) -> None:
        self.places: set[str] = set()
        self.most = 0
        self.launched: list[MemoryLaunched] = []
        self.swept: list[Mapping[str, object]] = []
        self.mute: set[str] = set()
        self.deadly: set[str] = set()
        self.says: dict[str, dict[str, Any]] = {}
        self.stuck = False
        self.problem = ""
        self.open: Exception | None = None
        self.crash: Exception | None = None
        self.trials = 0
        self.while_ending: Callable[[], object] = lambda: None
        self.while_launching: Callable[[], Awaitable[object]] = lambda: asyncio.sleep(0)
        self.unsure: Exception | None = None
        self.launching: set[str] = set()
        self.at_once = self._ending = 0

    def offer(self) -> SandboxOffer:
        self.trials += 1
        if self.open is not None:
            raise self.open
        return SandboxOffer(
            driver=self.driver,
            available=not self.problem,
            problem=self.problem,
            fix="mend it",
            enforced=HELD,
            sees=SEES,
        )

    async def launch(self, order: SandboxOrder, folder: Path) -> "MemoryLaunched":
        assert (folder / "record.json").exists(), "it is made before it is recorded"
        self.places.add(str(folder))
        self.launching.add(str(folder))
        self.most = max(self.most, len(self.places))
        try:
            await self.while_launching()
            if self.crash is not None:
                raise self.crash
            self.launched.append(MemoryLaunched(self, order, folder))
        finally:
            self.launching.discard(str(folder))
        return self.launched[-1]

    async def find(self, identity: dict[str, object]) -> None:
        """None outlives its host."""

    def sweep(self, identity: dict[str, object]) -> bool:
        self.swept.append(identity)
        with self.ending():
            return self.removed(str(identity["folder"]))

    def strays(self) -> int:
        """Whatever is in a place and was launched by nobody."""
        with self.ending():
            if self.unsure is not None:
                raise self.unsure
            known = {str(one.folder) for one in self.launched} | self.launching
            strays = [place for place in self.places if place not in known]
            return sum(map(self.removed, strays))

    @contextmanager
    def ending(self) -> Iterator[None]:
        self._ending += 1
        self.at_once = max(self.at_once, self._ending)
        try:
            self.while_ending()
            yield
        finally:
            self._ending -= 1

    def removed(self, folder: str) -> bool:
        if not self.stuck:
            self.places.discard(folder)
        return not self.stuck


class MemoryLaunched:
    """Implements ``Launched``. ``strangers`` are processes that the supervisor does not know of."""

    def __init__(self, launcher: MemoryLauncher, order: SandboxOrder, folder: Path) -> None:
        self.control, self._inside = socket.socketpair()
        self.identity: dict[str, object] = {"place": folder.name}
        self.made_of = ITSELF
        self.setup: dict[str, object] = {"pid_one": True}
        self.journal = folder / JOURNAL
        self.renewal: Renewal | None = None
        self.strangers = self.memory = 0
        self.asked: list[str] = []
        self._launcher, self._order, self.folder = launcher, order, folder
        self._box = MemorySandboxes()
        self.killed = self._begun = False
        self._serving, self._loops = asyncio.create_task(self._serve()), threading.get_ident()

    def processes(self) -> tuple[int, ...]:
        return () if self.killed else tuple(range(1, 2 + self.strangers))

    def end(self) -> bool:
        """In a thread of the host's; the supervisor is a task of its loop."""
        assert threading.get_ident() != self._loops, "all sandboxes wait while one is ended"
        with self._launcher.ending():
            return asyncio.run_coroutine_threadsafe(self._end(), self._serving.get_loop()).result()

    async def _end(self) -> bool:
        self.killed = True
        self.die()
        await asyncio.wait([self._serving])
        return self._launcher.removed(str(self.folder))

    def die(self) -> None:
        """The supervisor is killed, by nobody that the host knows of."""
        self._serving.cancel()
        if not self._begun:
            self._inside.close()

    def memory_kills(self) -> int:
        return self.memory

    async def _serve(self) -> None:
        self._begun = True
        reader, writer = await asyncio.open_unix_connection(sock=self._inside)
        answering = set()
        try:
            while (asked := await read_frame(reader)) is not None:
                self.asked.append(asked["do"])
                if asked["do"] in self._launcher.deadly:
                    return
                if asked["do"] not in self._launcher.mute:
                    answering.add(asyncio.create_task(self._answer(writer, asked)))
        finally:
            for task in answering:
                task.cancel()
            writer.close()

    async def _answer(self, writer: asyncio.StreamWriter, asked: dict[str, Any]) -> None:
        number, do = asked.pop("id"), asked.pop("do")
        try:
            said: dict[str, Any] = {"ok": self._launcher.says.get(do) or await getattr(self, METHODS[do])(**asked)}
        except Exception as error:
            said = {"error": failure_of(error)}
        writer.write(frame_of({"id": number, **said}))

    async def _set_up(
        self, marked: Any, start: Any, environment: Any, limits: Any, pid_one: bool
    ) -> dict[str, Any]:
        assert marked == self._order.marked
        assert (Snapshot.model_validate(start), environment) == (self._order.start, self._order.environment)
        assert SandboxLimits.model_validate(limits) == self._order.limits
        assert pid_one
        self._ref = await self._box.provision(self._order)
        return {}

    async def ping(self) -> dict[str, Any]:
        return {}

    async def call(self, request: Any, digest: str) -> dict[str, Any]:
        reply = await self._box.call(self._ref, REQUEST.validate_python(request))
        return reply.model_dump(mode="json")

    async def snapshot(self, known: dict[str, str]) -> dict[str, Any]:
        return (await self._box.snapshot(self._ref, known)).model_dump()

    async def settle(self, limit_s: float) -> dict[str, Any]:
        return {"empty": await self._box.settle(self._ref, limit_s)}

    async def seal(self) -> dict[str, Any]:
        await self._box.seal(self._ref)
        return {}

    async def drain(self) -> dict[str, Any]:
        return (await self._box.drain(self._ref)).model_dump(mode="json")

    async def facts(self) -> dict[str, Any]:
        known = {"commands", "processes", "processes_not_kept", "watched", "marked_reads", "environment", "drain"}
        return (await self._box.facts(self._ref)).model_dump(mode="json", include=known)
