"""Episodes and their outcomes in SQL tables."""

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta

from sqlalchemy import bindparam, delete, insert, select

from infra.stores.database import Database
from infra.stores.record_tables import EpisodeTable, HostTable, OutcomeTable
from infra.stores.statements import Row, equal, rows_of, table_of
from infra.stores.threads import in_thread
from schemas.base import canonical
from schemas.episode import EpisodeResult, EpisodeSpec
from schemas.host import Capacity, HostBeat, HostRecord

__all__ = ["SqlRecords"]

Pair = tuple[EpisodeSpec, EpisodeResult | None]

EPISODE, OUTCOME, HOST = table_of(EpisodeTable), table_of(OutcomeTable), table_of(HostTable)
WITH_OUTCOME = EPISODE.outerjoin(OUTCOME, OUTCOME.c.episode_id == EPISODE.c.episode_id)

ONE_EPISODE = select(EPISODE.c.spec).where(*equal(EPISODE.c.episode_id))
ONE_OUTCOME = select(OUTCOME.c.result).where(*equal(OUTCOME.c.episode_id))
INSERT_EPISODE, INSERT_OUTCOME = insert(EPISODE), insert(OUTCOME)
NEWEST = (
    select(EPISODE.c.spec, OUTCOME.c.result)
    .select_from(WITH_OUTCOME)
    .order_by(EPISODE.c.ordinal.desc())
    .limit(bindparam("most"))
)
_ORDINAL_OF_BEFORE = select(EPISODE.c.ordinal).where(*equal(EPISODE.c.episode_id)).scalar_subquery()
NEWEST_BEFORE = NEWEST.where(EPISODE.c.ordinal < _ORDINAL_OF_BEFORE)
UNFINISHED = (
    select(EPISODE.c.spec)
    .select_from(WITH_OUTCOME)
    .where(OUTCOME.c.episode_id.is_(None), EPISODE.c.planned_s <= bindparam("before"))
    .order_by(EPISODE.c.ordinal)
)
HOSTS = select(HOST).where(*equal(HOST.c.task_queue)).order_by(HOST.c.host)
FORGET_BEAT, INSERT_BEAT = delete(HOST).where(*equal(HOST.c.task_queue, HOST.c.host)), insert(HOST)


class SqlRecords:
    """Implements ``tiltyard.ports.Records``. ``now`` is the wall clock that plans and beats are dated by."""

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

    async def episodes(self, limit: int = 50, before: str = "") -> tuple[Pair, ...]:
        return await in_thread(self._episodes, limit, before)

    async def unfinished(self, older_than: timedelta) -> tuple[EpisodeSpec, ...]:
        return await in_thread(self._unfinished, older_than)

    async def beat(self, beat: HostBeat) -> None:
        await in_thread(self._beat, beat)

    async def hosts(self, task_queue: str) -> tuple[HostRecord, ...]:
        return await in_thread(self._hosts, task_queue)

    def _plan(self, specs: Sequence[EpisodeSpec]) -> None:
        planned_s = self._now().timestamp()
        with self._database.transaction() as connection:
            for spec in specs:  # in this order, so that the ordinals follow the plan
                if not rows_of(connection, ONE_EPISODE, episode_id=spec.episode_id):
                    values = {"episode_id": spec.episode_id, "planned_s": planned_s, "spec": canonical(spec)}
                    connection.execute(INSERT_EPISODE, values)

    def _record(self, result: EpisodeResult) -> EpisodeResult:
        with self._database.transaction() as connection:
            standing = rows_of(connection, ONE_OUTCOME, episode_id=result.episode_id)
            if standing:
                return _result_of(standing[0])
            connection.execute(INSERT_OUTCOME, {"episode_id": result.episode_id, "result": canonical(result)})
        return result

    def _spec(self, episode_id: str) -> EpisodeSpec | None:
        with self._database.reading() as connection:
            return next(map(_spec_of, rows_of(connection, ONE_EPISODE, episode_id=episode_id)), None)

    def _result(self, episode_id: str) -> EpisodeResult | None:
        with self._database.reading() as connection:
            return next(map(_result_of, rows_of(connection, ONE_OUTCOME, episode_id=episode_id)), None)

    def _episodes(self, limit: int, before: str) -> tuple[Pair, ...]:
        of_which = (NEWEST_BEFORE, {"episode_id": before}) if before else (NEWEST, {})
        with self._database.reading() as connection:
            rows = rows_of(connection, of_which[0], most=limit, **of_which[1])
        return tuple((_spec_of(row), None if row["result"] is None else _result_of(row)) for row in rows)

    def _unfinished(self, older_than: timedelta) -> tuple[EpisodeSpec, ...]:
        before = (self._now() - older_than).timestamp()
        with self._database.reading() as connection:
            return tuple(map(_spec_of, rows_of(connection, UNFINISHED, before=before)))

    def _beat(self, beat: HostBeat) -> None:
        key = {"task_queue": beat.task_queue, "host": beat.host}
        told = {"beat_s": self._now().timestamp(), **beat.capacity.model_dump()}
        with self._database.transaction() as connection:
            connection.execute(FORGET_BEAT, key)
            connection.execute(INSERT_BEAT, {**key, **told})

    def _hosts(self, task_queue: str) -> tuple[HostRecord, ...]:
        with self._database.reading() as connection:
            rows = rows_of(connection, HOSTS, task_queue=task_queue)
        now_s = self._now().timestamp()
        return tuple(
            HostRecord(
                host=row["host"],
                capacity=Capacity(slots=row["slots"], free=row["free"]),
                silent_s=max(0.0, now_s - row["beat_s"]),
            )
            for row in rows
        )


def _spec_of(row: Row) -> EpisodeSpec:
    return EpisodeSpec.model_validate(json.loads(row["spec"].decode("utf-8", "surrogatepass")))


def _result_of(row: Row) -> EpisodeResult:
    return EpisodeResult.model_validate(json.loads(row["result"].decode("utf-8", "surrogatepass")))
