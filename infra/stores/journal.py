"""Journals of episodes in SQL tables; large observations in the object store."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlmodel import Session, col, select

from infra.stores.database import Database
from infra.stores.objects import RecentObjects
from infra.stores.record_tables import JournalTable, TurnTable
from infra.stores.threads import in_thread
from schemas.base import canonical
from schemas.decision import Decision
from schemas.journal import TurnRecord, Writer
from schemas.observation import Observation
from tiltyard.journal_token import Token
from tiltyard.ports import Objects

__all__ = ["INLINE_BYTES", "SqlJournal"]

INLINE_BYTES = 4096
"""The largest observations of one turn that are kept in the database itself."""


class SqlJournal:
    """Implements ``tiltyard.ports.Journal``. Each write is one short transaction that checks the token first.

    ``read`` raises ``EnvironmentFailed`` when the object of a turn is missing or was changed.
    """

    def __init__(self, database: Database, objects: Objects) -> None:
        self._database = database
        self._objects = RecentObjects(objects)  # every slice reads the whole journal again

    async def take(self, episode_id: str, generation: int, writer: Writer) -> None:
        await in_thread(self._take, (episode_id, generation), writer)

    async def read(self, episode_id: str, generation: int) -> tuple[TurnRecord, ...]:
        rows = await in_thread(self._rows, (episode_id, generation))
        return tuple([await self._record_of(row) for row in rows])

    async def decide(self, episode_id: str, generation: int, writer: Writer, turn: int, decision: Decision) -> None:
        await in_thread(self._decide, (episode_id, generation), writer, turn, decision)

    async def observe(
        self,
        episode_id: str,
        generation: int,
        writer: Writer,
        turn: int,
        observations: tuple[Observation, ...],
        faults: tuple[str, ...],
        now_s: int,
    ) -> None:
        shown = canonical([observation.model_dump(mode="json") for observation in observations])
        row: dict[str, Any] = {"shown": shown, "faults": canonical(faults), "now_s": now_s}
        if len(shown) > INLINE_BYTES:  # the object first: a row never names one that is not there
            row |= {"shown": None, "shown_object": await self._objects.put(shown)}
        await in_thread(self._observe, (episode_id, generation), writer, turn, row)

    async def checkpoint(self, episode_id: str, generation: int, writer: Writer, turn: int, name: str) -> None:
        await in_thread(self._checkpoint, (episode_id, generation), writer, turn, name)

    async def close(self, episode_id: str, generation: int) -> None:
        await in_thread(self._close, (episode_id, generation))

    def _take(self, key: tuple[str, int], writer: Writer) -> None:
        with self._locked(key) as (_, journal):
            journal.token = canonical(_token_of(journal).taken_by(writer))

    def _close(self, key: tuple[str, int]) -> None:
        with self._locked(key) as (_, journal):
            journal.token = canonical(_token_of(journal).sealed())

    def _decide(self, key: tuple[str, int], writer: Writer, turn: int, decision: Decision) -> None:
        with self._locked(key) as (session, journal):
            _token_of(journal).require(writer)
            if session.get(TurnTable, (*key, turn)) is None:
                session.add(
                    TurnTable(episode_id=key[0], generation=key[1], turn=turn, decision=canonical(decision))
                )

    def _observe(self, key: tuple[str, int], writer: Writer, turn: int, answered: dict[str, Any]) -> None:
        with self._locked(key) as (session, journal):
            _token_of(journal).require(writer)
            row = session.get(TurnTable, (*key, turn))
            if row is None:
                raise ValueError(f"turn {turn} is observed before its decision was journalled")
            if row.shown is None and row.shown_object is None:
                row.sqlmodel_update(answered)

    def _checkpoint(self, key: tuple[str, int], writer: Writer, turn: int, name: str) -> None:
        with self._locked(key) as (session, journal):
            _token_of(journal).require(writer)
            row = session.get(TurnTable, (*key, turn))
            if row is None or (row.shown is None and row.shown_object is None):
                raise ValueError(f"turn {turn} has not ended, and has no checkpoint")
            row.checkpoint = row.checkpoint or name

    @contextmanager
    def _locked(self, key: tuple[str, int]) -> Iterator[tuple[Session, JournalTable]]:
        """One transaction with the journal's row, made if need be. An error takes everything back."""
        with self._database.transaction() as session:
            journal = session.get(JournalTable, key, with_for_update=True)
            if journal is None:
                journal = JournalTable(episode_id=key[0], generation=key[1], token=canonical(Token()))
                session.add(journal)
            yield session, journal

    def _rows(self, key: tuple[str, int]) -> list[TurnTable]:
        of_journal = (col(TurnTable.episode_id) == key[0], col(TurnTable.generation) == key[1])
        with self._database.reading() as session:
            return list(session.exec(select(TurnTable).where(*of_journal).order_by(col(TurnTable.turn))).all())

    async def _record_of(self, row: TurnTable) -> TurnRecord:
        shown = row.shown if row.shown_object is None else await self._objects.get(row.shown_object)
        return TurnRecord.model_validate(
            {
                "turn": row.turn,
                "decision": _loaded(row.decision),
                "observations": None if shown is None else _loaded(shown),
                "faults": _loaded(row.faults),
                "now_s": row.now_s,
                "checkpoint": row.checkpoint or "",
            }
        )


def _token_of(journal: JournalTable) -> Token:
    return Token.model_validate(_loaded(journal.token))


def _loaded(document: bytes) -> Any:
    return json.loads(document.decode("utf-8", "surrogatepass"))
