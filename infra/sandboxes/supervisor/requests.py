"""Requests: each is read, answered, and refused where it is none."""

from __future__ import annotations

import gc
import os

from infra.sandboxes.supervisor.control import Control, HungUp
from infra.sandboxes.supervisor.copying import Copy
from infra.sandboxes.supervisor.door import Door
from infra.sandboxes.supervisor.draining import Drain, end_at_once
from infra.sandboxes.supervisor.forwarder import Forwarder
from infra.sandboxes.supervisor.limits import MAX_COMMANDS, MAX_COPIED_BYTES
from infra.sandboxes.supervisor.loop import Again
from infra.sandboxes.supervisor.messages import Failure, bad, dumps, loads
from infra.sandboxes.supervisor.operations import Operations
from infra.sandboxes.supervisor.receipts import JOURNAL, JournalLost
from infra.sandboxes.supervisor.sandbox import Sandbox

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class Supervisor:
    """Answers requests, until the other side hangs up; or, with a door, for as long as it lives.

    ``control`` is a connected socket's descriptor, or the path of a door.
    """

    def __init__(self, control: int | str, journal: int, proc: int | None = None) -> None:
        self.sandbox = Sandbox(journal, proc)
        self.visits, self.control = 0, None  # type: int, Control | None
        self.door = None if isinstance(control, int) else Door(control, self.sandbox.loop, self.enter)
        self.begin()
        if isinstance(control, int):
            self.enter(control)
        gc.freeze()  # a collection that touches everything would copy everything that a child still shares

    def begin(self) -> None:
        """Know nothing of any operation."""
        self.operations = Operations(self.sandbox, self.reply)
        self.draining = Drain(self.operations, self.reply)
        self.forwarder: Forwarder | None = None
        self.requests: dict[str, Callable[[tuple[int, int], dict[str, Any]], dict[str, Any] | bytes | None]] = {
            "ping": self.ping,
            "setup": self.setup,
            "call": self.operations.call,
            "snapshot": self.snapshot,
            "settle": self.settle,
            "seal": self.operations.seal,
            "drain": self.draining.drain,
            "facts": self.facts,
            "renew": self.renew,
        }

    def run(self) -> None:
        """Serve until the other side hangs up; then end everything here."""
        try:
            while True:
                try:
                    self.sandbox.loop.turn()
                except HungUp:
                    if self.door is None:
                        raise
                    self.leave()
        except (HungUp, JournalLost):
            pass
        finally:
            end_at_once(self.sandbox)

    def enter(self, fd: int) -> None:
        """Speak with this one from now on; the one before is not spoken with any more."""
        self.leave()
        self.visits += 1
        self.control = Control(fd, self.sandbox.loop, self.handle)
        if self.forwarder is not None:
            self.forwarder.send()

    def leave(self) -> None:
        if self.control is not None:
            self.sandbox.loop.off(self.control.fd)
            self.control = None

    def handle(self, body: bytes, tail: bytes) -> None:
        number = self.visits, 0
        try:
            request = loads(body.decode("utf-8"))
            if not isinstance(request, dict) or not isinstance(request.get("id"), int):
                raise bad("a request is an object with an id")
            if "do" not in request and self.forwarder is not None:
                return self.forwarder.answered(request, tail)
            number = self.visits, request["id"]
            request["tail"] = tail
            answer = self.answer(number, request)
        except Failure as failure:
            self.refuse(number, failure)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError, OSError) as error:
            self.refuse(number, bad(f"a request that cannot be read: {type(error).__name__}: {error}"[:500]))
        else:
            if answer is not None:
                self.reply(number, answer)

    def reply(
        self, number: tuple[int, int], answer: dict[str, Any] | bytes, tail: list[bytes] | None = None
    ) -> None:
        said = answer if isinstance(answer, bytes) else dumps(answer).encode("ascii")
        self.send(number, [f'{{"id":{number[1]},"ok":'.encode("ascii"), said, b"}"], tail or [])

    def refuse(self, number: tuple[int, int], failure: Failure) -> None:
        self.send(number, [dumps({"id": number[1], "error": failure.said}).encode("ascii")], [])

    def send(self, number: tuple[int, int], body: list[bytes], tail: list[bytes]) -> None:
        """Tell whoever asked, if that one is still there."""
        if number[0] == self.visits:
            self.put(body, tail)

    def put(self, body: list[bytes], tail: list[bytes]) -> None:
        """Send to whoever is there, if anybody is."""
        if self.control is None:
            return
        try:
            self.control.send(body, tail)
        except HungUp:
            if self.door is None:
                raise
            self.leave()

    def answer(self, number: tuple[int, int], request: dict[str, Any]) -> dict[str, Any] | bytes | None:
        """The answer, or ``None`` when it comes later."""
        do = request.get("do")
        if do not in self.requests:
            raise bad(f"there is no request {do!r}"[:100], "do")
        if not self.sandbox.is_set_up and do not in ("setup", "ping"):
            raise bad("has not been set up", "sandbox", "send setup first")
        return self.requests[do](number, request)

    def ping(self, number: tuple[int, int], request: dict[str, Any]) -> dict[str, Any]:
        """A sign of life, and what there is of a sandbox: nothing before the first one, and after each."""
        return {
            "set_up": self.sandbox.is_set_up,
            "sealed": self.operations.sealed,
            "operations": len(self.operations.known),
            "programs": len(self.sandbox.programs.records),
            "reads": len(self.sandbox.marks.records),
            "attempts": len(self.sandbox.connections.records),
        }

    def setup(self, number: tuple[int, int], request: dict[str, Any]) -> dict[str, Any]:
        self.sandbox.set_up(request)
        if request.get("serves_world"):
            self.forwarder = Forwarder(self.operations, lambda body, tail: self.put([body], [tail]))
        return {}

    def snapshot(self, number: tuple[int, int], request: dict[str, Any]) -> None:
        """All files, while everything is frozen."""
        sandbox = self.sandbox
        copy = Copy(
            dict(request.get("known", {})),
            min(sandbox.limits["disk_bytes"], MAX_COPIED_BYTES),
            self.draining.report is not None,
        )
        stopped = sandbox.reach.freeze(sandbox.programs.on_all_calls)
        sandbox.marks.collect()
        try:
            with sandbox.agent:
                copy.walk(sandbox.work)
        finally:
            sandbox.marks.collect(counts=False)
            sandbox.reach.thaw(stopped)
        self.reply(number, *copy.reply())

    def settle(self, number: tuple[int, int], request: dict[str, Any]) -> None:
        """Tell when nobody is left, or that somebody is after ``limit_s``."""
        again = Again(float(request["limit_s"]))
        reach, programs = self.sandbox.reach, self.sandbox.programs

        def see() -> None:
            nobody = reach.nobody()
            if programs.fd < 0:
                programs.look_around(reach.others())
            if nobody or again.over:
                self.reply(number, {"empty": nobody})
            else:
                self.sandbox.loop.after(again.next_s(), see)

        see()

    def renew(self, number: tuple[int, int], request: dict[str, Any]) -> dict[str, Any]:
        """Be as new: of a drained sandbox nothing is left here, so that its places can be unmounted. ``journal`` is
        the path of a new one."""
        report = self.draining.report
        if report is None or not report["empty"] or not self.sandbox.reach.nobody():
            raise bad("it is not drained, or not empty", "sandbox", "make another one")
        if self.forwarder is not None:
            self.forwarder.close()
        self.sandbox.renew(os.open(request["journal"], JOURNAL))
        self.begin()
        return {}

    def facts(self, number: tuple[int, int], request: dict[str, Any]) -> dict[str, Any]:
        if self.draining.report is None:
            raise bad("it is not drained", "sandbox", "drain it first")
        programs, marks, connections = self.sandbox.programs, self.sandbox.marks, self.sandbox.connections
        programs.note_ends()
        marks.collect()
        commands = list(self.operations.known.values())
        return {
            "environment": self.sandbox.environment,
            "commands": [operation.facts() for operation in commands[-MAX_COMMANDS:]],
            "commands_not_kept": max(0, len(commands) - MAX_COMMANDS),
            "processes": [record for record in programs.records if record is not None],
            "processes_not_kept": programs.not_kept,
            "watched": "every_exec" if programs.fd >= 0 else "snapshots",
            "marked_reads": list(marks.records.values()),
            "marked_reads_not_kept": marks.not_kept,
            "unwatched": marks.unwatched,
            "reads_lost": marks.lost,
            "connections": list(connections.records.values()),
            "connections_not_kept": connections.not_kept,
            "drain": self.draining.report,
        }
