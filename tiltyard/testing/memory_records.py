"""Records in memory."""

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import dropwhile, islice

from schemas.episode import EpisodeResult, EpisodeSpec
from schemas.host import HostBeat, HostRecord

__all__ = ["MemoryRecords"]


class MemoryRecords:
    """Implements ``tiltyard.ports.Records``. ``now`` is the wall clock that plans and beats are dated by."""

    def __init__(self, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._now = now
        self._planned: dict[str, datetime] = {}
        self._specs: dict[str, EpisodeSpec] = {}
        self._results: dict[str, EpisodeResult] = {}
        self._beats: dict[tuple[str, str], tuple[HostBeat, datetime]] = {}

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

    async def episodes(
        self, limit: int = 50, before: str = ""
    ) -> tuple[tuple[EpisodeSpec, EpisodeResult | None], ...]:
        newest: Iterator[EpisodeSpec] = reversed(self._specs.values())
        if before:
            newest = dropwhile(lambda spec: spec.episode_id != before, newest)
            next(newest, None)
        return tuple((spec, self._results.get(spec.episode_id)) for spec in islice(newest, limit))

    async def unfinished(self, older_than: timedelta) -> tuple[EpisodeSpec, ...]:
        before = self._now() - older_than
        return tuple(
            spec for key, spec in self._specs.items() if key not in self._results and self._planned[key] <= before
        )

    async def beat(self, beat: HostBeat) -> None:
        self._beats[beat.task_queue, beat.host] = (beat, self._now())

    async def hosts(self, task_queue: str) -> tuple[HostRecord, ...]:
        now = self._now()
        return tuple(
            HostRecord(host=host, capacity=beat.capacity, silent_s=max(0.0, (now - at).total_seconds()))
            for (queue, host), (beat, at) in sorted(self._beats.items())
            if queue == task_queue
        )
