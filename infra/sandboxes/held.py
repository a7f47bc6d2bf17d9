"""One sandbox of this host, from its launch to its release."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from infra.sandboxes import records
from infra.sandboxes.inside import Inside, Worlds
from infra.sandboxes.launching import Launched
from infra.sandboxes.link import Link
from infra.sandboxes.patience import Patience
from infra.sandboxes.records import JOURNAL, Kept
from infra.sandboxes.supervision import Supervised, name_of
from infra.sandboxes.testimony import Reached, Testimony, read_testimony, with_earlier, with_incarnation
from infra.sandboxes.threads import in_thread
from infra.sandboxes.verdicts import MemoryVerdicts
from schemas.operation import ExecRequest, SandboxReply, SandboxRequest, request_digest
from schemas.sandbox import SandboxOrder, WorldAccess
from schemas.sandbox_facts import SandboxDrain, SandboxFacts
from tiltyard.errors import BadInput, LateWrite, SandboxLost, TiltyardError

log = logging.getLogger(__name__)

PAUSE_S = 0.02
"""Between two looks from outside."""


class HeldSandbox(Supervised):
    """A sandbox that a host has: what is asked of it, what it is drained to, and how it ends.

    ``end`` kills what is left of it and says whether nothing is left. ``has_slot``: it counts as one of the host's.
    """

    def __init__(
        self,
        kept: Kept,
        folder: Path,
        end: Callable[[], Awaitable[bool]],
        patience: Patience,
        worlds: Worlds | None = None,
    ) -> None:
        super().__init__(kept, folder, patience, Inside(worlds))
        self.has_slot = False
        self._end = end
        self._watch: asyncio.Task[None] | None = None
        self._memory = MemoryVerdicts()
        self._said = Testimony()
        self._sealed_inside = self._ended = self._given_up = False
        self._ending, self._draining = asyncio.Lock(), asyncio.Lock()

    async def attach(self, launched: Launched) -> None:
        """Speak with the supervisor from now on; when it hangs up the sandbox is lost."""
        self._launched, self._end = launched, lambda: in_thread(launched.end)
        hung_up = lambda: self._loss(self._blamed(self._why))  # noqa: E731
        self._link = link = await Link.over(launched.control, hung_up, self._asked)
        self._watch = asyncio.create_task(self._lose_with(link))
        self.now(identity=launched.identity, made_of=launched.made_of)

    async def set_up(self, order: SandboxOrder) -> None:
        """Have the supervisor put the order's files and limits in place."""
        content = order.model_dump(include={"marked", "start", "environment", "limits"})
        content |= {"serves_world": True} if order.exposes else {}
        await self.ask("setup", **{**(self._launched.setup if self._launched else {}), **content})
        self.require_there()  # it may have been lost since it answered
        self.now(state="live")
        log.info("%s is there, for the episode %s", name_of(self.ref), self.kept.episode_id)

    def connect(self, access: WorldAccess) -> None:
        """What its programs ask of their world belongs to this lease from now on."""
        self.require_there()
        if self.kept.access != access:
            self._note(access=access)

    async def _asked(self, question: dict[str, Any]) -> dict[str, Any]:
        kept = self.kept
        return await self._inside.answer(kept.access, kept.ref.incarnation, kept.exposes, question)

    def _note(self, **changes: object) -> None:
        """Change the record of one that was given out. A later host tells all of them as lost whatever it says, so
        a disk that does not take it holds nobody up. Of one that was given up there is no record any more."""
        self._change(changes)
        try:
            if not self._given_up:
                records.write(self.folder, self.kept)
        except OSError as error:
            log.error("the record of %s cannot be written: %s", name_of(self.ref), error)

    async def call(self, request: SandboxRequest) -> SandboxReply:
        """The supervisor knows what it has recorded before the seal, so it is asked after it too; but nothing is
        sent while it may not have heard of the seal."""
        if self.kept.state == "sealed" and not self._sealed_inside:
            raise LateWrite(f"{request.op_id} came after the seal of {name_of(self.ref)}")
        takes_s = request.timeout_s if isinstance(request, ExecRequest) else 0
        content, digest, kills = request.model_dump(mode="json"), request_digest(request), self._memory_kills()
        self._memory.begin(request.op_id, kills)
        asking = self.answer(SandboxReply, "call", takes_s, kills=kills, request=content, digest=digest)
        reply = await (asking if self.kept.access is None else self._inside.unless_away(asking))
        return self._memory.judged(reply, self._launched)

    async def seal(self) -> None:
        """Refuse whatever is new, from this line on, and have the supervisor refuse it."""
        self.require_there()
        if self.kept.state == "live":
            self._note(state="sealed")
        if not self._sealed_inside:
            await self.ask("seal")
            self._sealed_inside = True

    async def drain(self) -> SandboxDrain:
        """The supervisor ends all others, and that is looked at from outside; or all are ended from outside."""
        async with self._draining:
            if self.kept.drain is None:
                if self.kept.state == "live":
                    raise BadInput("it is not sealed", field="sandbox", fix="seal it first")
                self.require_there()
                self._note(drain=(await self._drained()).model_dump())
            assert self.kept.drain is not None
            return self.kept.drain

    async def facts(self) -> SandboxFacts:
        """What the supervisor knows, with what is known outside. Of a lost one, what it had written down."""
        if self.kept.drain is None and self.kept.state != "lost":
            raise BadInput("it is not drained", field="sandbox", fix="drain it first")
        outside: dict[str, object] = {
            "driver": self.ref.driver,
            "incarnation": self.ref.incarnation,
            "enforced": self.kept.enforced,
        }
        outside |= self.kept.made_of.model_dump()
        outside["drain"] = self.kept.drain or SandboxDrain()
        if self.kept.state == "lost":
            await self._hear()
            said = {**self._said.model_dump(exclude={"reached"}), **self._said.reached.model_dump()}
            outside["from_journal"] = True
        else:
            said = await self.ask("facts")
        return with_earlier(await self._read(SandboxFacts, "facts", {**said, **outside}), self.kept.earlier)

    async def reached(self) -> Reached:
        """What was reached for in this incarnation and those before it, as it is written down."""
        await self._hear()
        return self.kept.earlier.then(with_incarnation(self._said.reached, self.ref.incarnation))

    async def _hear(self) -> None:
        """Read what its supervisor has written down, before that is removed with it."""
        journal = self._launched.journal if self._launched else self.folder / JOURNAL
        heard = await in_thread(lambda: read_testimony(journal))
        self._said = self._said if heard == Testimony() else heard

    async def _drained(self) -> SandboxDrain:
        others = await self._others()
        beyond_s = self._patience.drain_s - self._patience.answer_s
        try:
            report = await self.answer(SandboxDrain, "drain", beyond_s)
        except SandboxLost:
            log.warning("%s was drained from outside: its supervisor did not do it", name_of(self.ref))
            await self._hear()
            return SandboxDrain(found=others, ended_by_kill=others, empty=await self.end())
        return report.model_copy(update={"empty": report.empty and await self._alone()})

    async def _alone(self) -> bool:
        loop = asyncio.get_running_loop()
        until = loop.time() + self._patience.alone_s
        while await self._others():
            if loop.time() > until:
                return False
            await asyncio.sleep(PAUSE_S)
        return True

    async def _others(self) -> int:
        """Processes beside the supervisor, counted from outside."""
        return max(0, len(await in_thread(self._launched.processes)) - 1) if self._launched else 0

    async def lose(self, why: str) -> None:
        """It is lost from now on, and what is left of it is ended at once; its record stays until the release."""
        if was_there := self.kept.state != "lost":
            log.warning("%s is lost: %s", name_of(self.ref), why)
            self._why = why
            self._change({"state": "lost"})
        await self._hear()
        if not await self.end():
            log.error("something of %s is left after a kill", name_of(self.ref))
        if was_there:
            self._note()

    async def give_up(self) -> bool:
        """End it and forget its record; whether nothing is left. Where something is, it stays as a lost one."""
        if self._watch:
            self._watch.cancel()
        if await self._given_back() or await self.end():
            self._given_up = True
            records.remove(self.folder)
            log.info("%s was given up", name_of(self.ref))
            return True
        self._note(state="lost")
        log.error("something of %s is left after a kill: its place is not used again", name_of(self.ref))
        return False

    async def _given_back(self) -> bool:
        """Whether its driver has taken it back, to be used again: only what was drained, and seen to be empty."""
        renewal = self._launched.renewal if self._launched else None
        drained = self.kept.state == "sealed" and self.kept.drain is not None and self.kept.drain.empty
        async with self._ending:
            if self._ended or renewal is None or self._link is None or not drained:
                return self._ended
            try:
                async with asyncio.timeout(self._patience.answer_s):
                    await self._link.ask("renew", **await in_thread(renewal.begin))
                self._link.close()
                self._ended = await in_thread(renewal.finish)
            except (TiltyardError, TimeoutError, OSError) as error:
                log.warning("%s is not used again: %s", name_of(self.ref), error)
            return self._ended

    async def end(self) -> bool:
        """Kill it and clean up; whether nothing is left. Again: tries again with what was left."""
        async with self._ending:
            try:
                self._ended = self._ended or await self._end()
            except Exception:  # whatever a driver meets with: it is tried again
                log.exception("%s cannot be ended", name_of(self.ref))
            if self._link:
                self._link.close()
            return self._ended
