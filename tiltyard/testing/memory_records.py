"""Records in memory."""

from collections.abc import Sequence

from schemas.episode import EpisodeResult, EpisodeSpec

__all__ = ["MemoryRecords"]


class MemoryRecords:
    """Implements ``tiltyard.ports.Records``."""

    def __init__(self) -> None:
        self._specs: dict[str, EpisodeSpec] = {}
        self._results: dict[str, EpisodeResult] = {}

    async def plan(self, specs: Sequence[EpisodeSpec]) -> None:
        for spec in specs:
            self._specs.setdefault(spec.episode_id, spec)

    async def record(self, result: EpisodeResult) -> EpisodeResult:
        return self._results.setdefault(result.episode_id, result)

    async def spec(self, episode_id: str) -> EpisodeSpec | None:
        return self._specs.get(episode_id)

    async def result(self, episode_id: str) -> EpisodeResult | None:
        return self._results.get(episode_id)

    async def episodes(self, limit: int = 50) -> tuple[tuple[EpisodeSpec, EpisodeResult | None], ...]:
        newest = list(reversed(self._specs.values()))[:limit]
        return tuple((spec, self._results.get(spec.episode_id)) for spec in newest)
