"""The end of a sandbox: all others are ended, and counted; or killed at once."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # typeshed knows it as signal, which loads enum
import time

from infra.sandboxes.supervisor.limits import KILL_S, TERM_S
from infra.sandboxes.supervisor.loop import Again
from infra.sandboxes.supervisor.messages import bad
from infra.sandboxes.supervisor.operations import Operations
from infra.sandboxes.supervisor.sandbox import Sandbox

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class Drain:
    """Ends all others once, after the seal. ``report`` is what came of it; ``tell`` sends it to all who asked."""

    def __init__(self, operations: Operations, tell: Callable[[tuple[int, int], dict[str, Any]], None]) -> None:
        self.operations, self.sandbox, self.tell = operations, operations.sandbox, tell
        self.report: dict[str, Any] | None = None
        self.askers: list[tuple[int, int]] = []
        self.seen: set[int] = set()

    def drain(self, number: tuple[int, int], request: dict[str, Any]) -> dict[str, Any] | None:
        """End all others: TERM, ``term_s`` seconds, KILL. What is in flight now has not ended by itself."""
        if not self.operations.sealed:
            raise bad("it is not sealed", "sandbox", "seal it first")
        if self.report is not None:
            return self.report
        self.askers.append(number)
        if len(self.askers) == 1:
            reach = self.sandbox.reach
            for operation in self.operations.known.values():
                operation.in_flight = operation.started and not operation.ended
            self.seen = {process.pid for process in reach.others()}
            reach.signal(_signal.SIGTERM)
            reach.signal(_signal.SIGCONT)
            self._await_term(Again(float(request.get("term_s", TERM_S))))
        return None

    def _await_term(self, again: Again) -> None:
        alive = self._look()
        if not alive and self.sandbox.reach.nobody():
            self._end(len(self.seen), 0, True)
        elif again.over:
            self._await_kill(Again(KILL_S), len(self.seen - alive))
        else:
            self.sandbox.loop.after(again.next_s(), lambda: self._await_term(again))

    def _await_kill(self, again: Again, ended_by_term: int) -> None:
        alive = self._look()
        empty = not alive and self.sandbox.reach.nobody()
        if empty or again.over:
            self._end(ended_by_term, len(self.seen - alive) - ended_by_term, empty)
        else:
            self.sandbox.children.killing = True
            self.sandbox.reach.kill()
            self.sandbox.loop.after(again.next_s(), lambda: self._await_kill(again, ended_by_term))

    def _look(self) -> set[int]:
        """Who is alive; they are seen, and so are those that were killed before anybody looked."""
        alive = {process.pid for process in self.sandbox.reach.others()}
        self.seen |= alive | self.sandbox.children.killed
        return alive

    def _end(self, by_term: int, by_kill: int, empty: bool) -> None:
        counts = {"found": len(self.seen), "ended_by_term": by_term, "ended_by_kill": by_kill}
        self.sandbox.children.collect()  # what was in flight has ended now, and its record is to say how
        self.report = {**counts, "refused": self.operations.refused, "empty": empty}
        self.sandbox.journal.write("drained", **self.report)
        for number in self.askers:
            self.tell(number, self.report)


def end_at_once(sandbox: Sandbox) -> None:
    """Kill all others; nobody is told any more how they end."""
    children = sandbox.children
    children.expected.clear()
    again, children.killing = Again(KILL_S), True
    while sandbox.is_set_up and not sandbox.reach.nobody() and not again.over:
        sandbox.reach.kill()
        children.reap()
        time.sleep(again.next_s())
