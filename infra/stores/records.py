"""Episodes and their outcomes in SQL tables."""

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta

from sqlmodel import Session, col, select

from infra.stores.database import Database
from infra.stores.record_tables import EpisodeTable, OutcomeTable
from infra.stores.threads import in_thread
from schemas.base import canonical
from schemas.episode import EpisodeResult, EpisodeSpec

__all__ = ["SqlRecords"]

Pair = tuple[EpisodeSpec, EpisodeResult | None]


class SqlRecords:
    """Implements ``tiltyard.ports.Records``. ``now`` is the wall clock that plans are dated by."""

    def __init__(self, database: Database, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._database, self._now = database, now

    async def plan(self, specs: Sequence[EpisodeSpec]) -> None:
        await in_thread(self._plan, specs)

    async def record(self, result: EpisodeResult) -> EpisodeResult:
        return await in_thread(self._record, result)

    async def spec(self, episode_id: str) -> EpisodeSpec | None:
        return await in_thread(self._spec, episode_id)

    async def result(self, episode_id: str) -> EpisodeResult | None:
        return await in_thread(self._result, episode_id)

    async def episodes(self, limit: int = 50) -> tuple[Pair, ...]:
        return await in_thread(self._episodes, limit)

    async def unfinished(self, older_than: timedelta) -> tuple[EpisodeSpec, ...]:
        return await in_thread(self._unfinished, older_than)

    def _plan(self, specs: Sequence[EpisodeSpec]) -> None:
        planned_s = self._now().timestamp()
        with self._database.transaction() as session:
            for spec in specs:
                if _episode(session, spec.episode_id) is None:
                    session.add(EpisodeTable(episode_id=spec.episode_id, planned_s=planned_s, spec=canonical(spec)))
                    session.flush()  # in this order, so that the ordinals follow the plan

    def _record(self, result: EpisodeResult) -> EpisodeResult:
        with self._database.transaction() as session:
            standing = session.get(OutcomeTable, result.episode_id)
            if standing is not None:
                return _result_of(standing)
            session.add(OutcomeTable(episode_id=result.episode_id, result=canonical(result)))
        return result

    def _spec(self, episode_id: str) -> EpisodeSpec | None:
        with self._database.reading() as session:
            row = _episode(session, episode_id)
            return None if row is None else _spec_of(row)

    def _result(self, episode_id: str) -> EpisodeResult | None:
        with self._database.reading() as session:
            row = session.get(OutcomeTable, episode_id)
            return None if row is None else _result_of(row)

    def _episodes(self, limit: int) -> tuple[Pair, ...]:
        newest = (
            select(EpisodeTable, OutcomeTable)
            .join(OutcomeTable, col(OutcomeTable.episode_id) == col(EpisodeTable.episode_id), isouter=True)
            .order_by(col(EpisodeTable.ordinal).desc())
            .limit(limit)
        )
        with self._database.reading() as session:
            rows: list[tuple[EpisodeTable, OutcomeTable | None]] = list(session.exec(newest).all())
            return tuple((_spec_of(plan), None if end is None else _result_of(end)) for plan, end in rows)

    def _unfinished(self, older_than: timedelta) -> tuple[EpisodeSpec, ...]:
        before = (self._now() - older_than).timestamp()
        waiting = (
            select(EpisodeTable)
            .join(OutcomeTable, col(OutcomeTable.episode_id) == col(EpisodeTable.episode_id), isouter=True)
            .where(col(OutcomeTable.episode_id).is_(None), col(EpisodeTable.planned_s) <= before)
            .order_by(col(EpisodeTable.ordinal))
        )
        with self._database.reading() as session:
            return tuple(_spec_of(row) for row in session.exec(waiting).all())


def _episode(session: Session, episode_id: str) -> EpisodeTable | None:
    return session.exec(select(EpisodeTable).where(col(EpisodeTable.episode_id) == episode_id)).first()


def _spec_of(row: EpisodeTable) -> EpisodeSpec:
    return EpisodeSpec.model_validate(json.loads(row.spec.decode("utf-8", "surrogatepass")))


def _result_of(row: OutcomeTable) -> EpisodeResult:
    return EpisodeResult.model_validate(json.loads(row.result.decode("utf-8", "surrogatepass")))
