"""Records in memory."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta

from schemas.episode import EpisodeResult, EpisodeSpec

__all__ = ["MemoryRecords"]


class MemoryRecords:
    """Implements ``tiltyard.ports.Records``. ``now`` is the wall clock that plans are dated by."""

    def __init__(self, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._now = now
        self._planned: dict[str, datetime] = {}
        self._specs: dict[str, EpisodeSpec] = {}
        self._results: dict[str, EpisodeResult] = {}

    async def plan(self, specs: Sequence[EpisodeSpec]) -> None:
        for spec in specs:
            self._specs.setdefault(spec.episode_id, spec)
            self._planned.setdefault(spec.episode_id, self._now())

    async def record(self, result: EpisodeResult) -> EpisodeResult:
        return self._results.setdefault(result.episode_id, result)

    async def spec(self, episode_id: str) -> EpisodeSpec | None:
        return self._specs.get(episode_id)

    async def result(self, episode_id: str) -> EpisodeResult | None:
        return self._results.get(episode_id)

    async def episodes(self, limit: int = 50) -> tuple[tuple[EpisodeSpec, EpisodeResult | None], ...]:
        newest = list(reversed(self._specs.values()))[:limit]
        return tuple((spec, self._results.get(spec.episode_id)) for spec in newest)

    async def unfinished(self, older_than: timedelta) -> tuple[EpisodeSpec, ...]:
        before = self._now() - older_than
        return tuple(
            spec for key, spec in self._specs.items() if key not in self._results and self._planned[key] <= before
        )
