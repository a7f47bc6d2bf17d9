"""What commands have to do with the world while they run: its clock as they left it, and time that was lost."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

LOSS_S = 0.5
"""A request that waits so much longer than the world took for it has waited for one that was away."""


class Dealings:
    """``clock`` is the world's after the last answer, and how much time outside of it that had made up for."""

    def __init__(self) -> None:
        self.clock: dict[str, int] = {}
        self.elsewhere_s = 0  # virtual time that the episode has spent outside the world, as it was last told
        self.lost_s: dict[str, float] = {}  # real seconds, by operation
        self._owed_s: dict[str, float] = {}
        self._waits = ""
        self._again: Callable[[], None] | None = None

    def advance(self, elsewhere_s: int) -> None:
        """The episode has spent so much virtual time outside the world so far."""
        self.elsewhere_s = max(self.elsewhere_s, elsewhere_s)

    def begin(self, op_id: str) -> None:
        """A request that descends from this operation is under way."""
        self._waits = op_id

    def end(self, pending_s: float, took_s: float) -> None:
        """It was answered after ``pending_s`` seconds, of which the world needed ``took_s``."""
        op_id, self._waits = self._waits, ""
        lost_s = max(0.0, pending_s - took_s)
        if lost_s > LOSS_S:
            self.lost_s[op_id] = self.lost_s.get(op_id, 0.0) + lost_s
            self._owed_s[op_id] = self._owed_s.get(op_id, 0.0) + lost_s
        again, self._again = self._again, None
        if again is not None:
            again()

    def excuse(self, op_id: str, again: Callable[[], None]) -> float:
        """Seconds that a command gets beyond its time, for those that were lost.

        Below 0: that cannot be told before ``again`` is called.
        """
        owed_s = self._owed_s.pop(op_id, 0.0)
        if not owed_s and self._waits == op_id:
            self._again = again
            return -1.0
        return owed_s

    def seen(self, op_id: str) -> dict[str, float] | None:
        """As ``schemas.sandbox.WorldSeen``; ``None`` where nobody has asked the world yet."""
        return {**self.clock, "outage_s": round(self.lost_s.get(op_id, 0.0), 3)} if self.clock else None
