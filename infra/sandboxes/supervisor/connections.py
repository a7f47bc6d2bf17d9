"""Attempts to reach somebody outside of the sandbox, and to have names resolved."""

from __future__ import annotations

import os

from infra.sandboxes.supervisor.destinations import (
    NAMES,
    UNREADABLE,
    Destination,
    is_elsewhere,
    name_asked,
    sent_of,
    text_of,
)
from infra.sandboxes.supervisor.limits import MAX_ASKING, MAX_CONNECTIONS
from infra.sandboxes.supervisor.loop import Clock
from infra.sandboxes.supervisor.notices import CONNECT, argument, send_of, task_of
from infra.sandboxes.supervisor.receipts import Journal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

Attempt = tuple[Destination, str]
"""(whom, the name that is asked for)."""


class Connections:
    """Attempts, each once with how often it was made. They are read before they are done, and nothing is forbidden:
    there is no network that could be reached."""

    def __init__(self, clock: Clock, journal: Journal) -> None:
        self._clock = clock
        self.renew(journal)

    def renew(self, journal: Journal) -> None:
        """Know of none."""
        self._journal = journal
        self.records: dict[tuple[Attempt, str], dict[str, Any]] = {}
        self.not_kept = 0
        self._asking: dict[tuple[int, int], Destination] = {}  # (task, descriptor) that are connected for names

    def read(self, notice: bytearray) -> list[Attempt]:
        """What is to be told of a call that waits. Raises as ``sent_of``, for one that will fail."""
        line = task_of(notice), argument(notice, 0) & 0xFFFFFFFF
        try:
            memory = os.open(f"/proc/{task_of(notice)}/mem", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return [(UNREADABLE, "")]  # it has closed itself, even to its own user
        try:
            sent = sent_of(notice, memory)
        finally:
            os.close(memory)
        if send_of(notice) == CONNECT:
            self._connected(line, sent[0].to)
        found = []
        for one in sent:
            to = one.to or (self._asking.get(line) if one.begins else None)
            if to is not None and is_elsewhere(to):
                found.append((to, name_asked(one.begins) if to[1] == NAMES else ""))
        return found

    def _connected(self, line: tuple[int, int], to: Destination | None) -> None:
        self._asking.pop(line, None)
        if to is not None and to[1] == NAMES:
            if len(self._asking) >= MAX_ASKING:
                self._asking.clear()
            self._asking[line] = to

    def add(self, attempts: list[Attempt], op_id: str) -> None:
        """Record them."""
        for attempt in attempts:
            self._add(attempt, op_id)

    def _add(self, attempt: Attempt, op_id: str) -> None:
        """Who asks for a name has connected first, which is told with the name, then."""
        to, name = attempt
        record = self.records.get((attempt, op_id))
        before = self.records.pop(((to, ""), op_id), None) if name else None
        count = 1 + (before["count"] if before else 0)
        if record is not None:
            record["count"] += count
        elif len(self.records) >= MAX_CONNECTIONS:
            self.not_kept += 1
        else:
            first_s = before["first_s"] if before else self._clock.now_s
            record = {"address": text_of(to[0]), "port": to[1], "name": name, "op_id": op_id}
            self._journal.write("reached", **record)
            self.records[attempt, op_id] = {**record, "count": count, "first_s": first_s}
