"""Versions of the workflows' code in memory, for tests."""

from collections.abc import Mapping, Set

from schemas.world import Owner

__all__ = ["MemoryVersions"]


class MemoryVersions:
    """Implements ``tiltyard.ports.Versions``.

    ``others`` have a worker beside ours; ``refused`` says by workflow what ours would do otherwise. ``moved`` are
    those that went on with ours. ``away``: what every question raises.
    """

    def __init__(self, ours: str, others: Set[str] = frozenset(), refused: Mapping[str, str] | None = None) -> None:
        self.ours, self.others, self.refused = ours, others, dict(refused or {})
        self.moved = list[str]()
        self.away: Exception | None = None

    async def served(self) -> Set[str]:
        if self.away is not None:
            raise self.away
        return {self.ours, *self.others}

    async def move(self, owner: Owner) -> str:
        if self.away is not None:
            raise self.away
        if owner.workflow_id not in self.refused:
            self.moved.append(owner.workflow_id)
        return self.refused.get(owner.workflow_id, "")
