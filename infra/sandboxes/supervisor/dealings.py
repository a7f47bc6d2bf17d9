"""What commands have to do with the world while they run: its clock as they left it, and time that was lost."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

LOSS_S = 0.5
"""A request that waits so much longer than the world took for it has waited for one that was away."""


class Wait:
    """A request that descends from an operation, from when it came until it has been answered."""

    __slots__ = ("op_id", "since_s")

    def __init__(self, op_id: str, since_s: float) -> None:
        self.op_id, self.since_s = op_id, since_s


class Dealings:
    """``clock`` is the world's after the last answer, and how much time outside of it that had made up for.

    One request is under way at a time, and others wait behind it: a world that is away takes time from all
    of them. Each ``now_s`` is a reading of the monotonic clock.
    """

    def __init__(self) -> None:
        self.clock: dict[str, int] = {}
        self.elsewhere_s = 0  # virtual time that the episode has spent outside the world, as it was last told
        self.lost_s: dict[str, float] = {}  # real seconds, by operation
        self._owed_s: dict[str, float] = {}
        self._waits: list[Wait] = []  # also the one under way
        self._sent_s = -1.0  # when that was; below 0 where none is
        self._again: dict[str, Callable[[], None]] = {}

    def advance(self, elsewhere_s: int) -> None:
        """The episode has spent so much virtual time outside the world so far."""
        self.elsewhere_s = max(self.elsewhere_s, elsewhere_s)

    def wait(self, op_id: str, now_s: float) -> Wait:
        """A request that descends from this operation waits for its turn."""
        wait = Wait(op_id, now_s)
        self._waits.append(wait)
        return wait

    def leave(self, wait: Wait) -> None:
        """It waits no more."""
        self._waits.remove(wait)

    def begin(self, now_s: float) -> None:
        """One of those that wait is under way."""
        self._sent_s = now_s

    def end(self, wait: Wait, now_s: float, took_s: float) -> None:
        """This one was under way and is answered now; the world needed ``took_s`` seconds for it."""
        since_s: dict[str, float] = {}  # an operation that waits with many requests has waited as long as the first
        for one in self._waits:
            since_s.setdefault(one.op_id, max(one.since_s, self._sent_s))
        for op_id, began_s in since_s.items():
            lost_s = now_s - began_s - took_s
            if lost_s > LOSS_S:
                self.lost_s[op_id] = self.lost_s.get(op_id, 0.0) + lost_s
                self._owed_s[op_id] = self._owed_s.get(op_id, 0.0) + lost_s
        self.leave(wait)
        self._sent_s = -1.0
        again, self._again = self._again, {}
        for call in again.values():
            call()

    def excuse(self, op_id: str, again: Callable[[], None]) -> float:
        """Seconds that a command gets beyond its time, for those that were lost.

        Below 0: that cannot be told before ``again`` is called.
        """
        owed_s = self._owed_s.pop(op_id, 0.0)
        if not owed_s and self._sent_s >= 0 and any(one.op_id == op_id for one in self._waits):
            self._again[op_id] = again
            return -1.0
        return owed_s

    def seen(self, op_id: str) -> dict[str, float] | None:
        """As ``schemas.operation.WorldSeen``; ``None`` where nobody has asked the world yet."""
        return {**self.clock, "outage_s": round(self.lost_s.get(op_id, 0.0), 3)} if self.clock else None
