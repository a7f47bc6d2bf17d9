"""Journals of episodes in SQL tables; large observations in the object store."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, bindparam, func, insert, select, update

from infra.stores.database import Database
from infra.stores.objects import RecentObjects
from infra.stores.record_tables import JournalTable, TurnTable
from infra.stores.statements import Row, equal, rows_of, table_of
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

Key = tuple[str, int]
"""An episode and its generation."""

JOURNAL, TURN = table_of(JournalTable), table_of(TurnTable)
OF_JOURNAL, OF_TURN = (TURN.c.episode_id, TURN.c.generation), TURN.primary_key
HELD = "held_"
"""Before the names of parameters that say which row an update means."""

OPEN = TURN.c.shown.is_(None) & TURN.c.shown_object.is_(None)
ANSWER = ("shown", "shown_object", "faults", "now_s")

HOLD = select(JOURNAL.c.token).where(*equal(*JOURNAL.primary_key)).with_for_update()
INSERT_JOURNAL = insert(JOURNAL)
BEGIN_JOURNAL = insert(JOURNAL)
INHERITED = select(JOURNAL.c.inherited).where(*equal(*JOURNAL.primary_key))
UPDATE_TOKEN = update(JOURNAL).where(*equal(*JOURNAL.primary_key, prefix=HELD)).values(token=bindparam("token"))
IS_TURN = select(TURN.c.turn).where(*equal(*OF_TURN))
HAS_ENDED = IS_TURN.where(~OPEN)
ALL_TURNS = select(TURN).where(*equal(*OF_JOURNAL)).order_by(TURN.c.turn)
NEWEST = select(func.max(TURN.c.generation).label("generation")).where(*equal(TURN.c.episode_id))
INSERT_TURN = insert(TURN)
OBSERVE = update(TURN).where(*equal(*OF_TURN, prefix=HELD), OPEN).values({name: bindparam(name) for name in ANSWER})
CHECKPOINT = (
    update(TURN)
    .where(*equal(*OF_TURN, prefix=HELD), TURN.c.checkpoint.is_(None))
    .values(checkpoint=bindparam("checkpoint"))
)


class SqlJournal:
    """Implements ``tiltyard.ports.Journal``. Each write is one short transaction that checks the token first.

    ``read`` raises ``EnvironmentFailed`` when the object of a turn is missing or was changed.
    """

    def __init__(self, database: Database, objects: Objects) -> None:
        self._database = database
        self._objects = RecentObjects(objects)  # the end of an episode reads again what its turns wrote

    async def take(self, episode_id: str, generation: int, writer: Writer) -> Writer | None:
        return await in_thread(self._take, (episode_id, generation), writer)

    async def read(self, episode_id: str, generation: int) -> tuple[TurnRecord, ...]:
        rows = await in_thread(self._rows, (episode_id, generation))
        return tuple([await self._record_of(row) for row in rows])

    async def newest(self, episode_id: str) -> int:
        return await in_thread(self._newest, episode_id)

    async def begin(
        self, episode_id: str, generation: int, turns: Sequence[TurnRecord], inherited: str = ""
    ) -> None:
        rows = [await self._row_of(turn) for turn in turns]
        await in_thread(self._begin, (episode_id, generation), rows, inherited)

    async def inherited(self, episode_id: str, generation: int) -> str:
        return await in_thread(self._inherited, (episode_id, generation))

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
        row = await self._answer(observations, faults, now_s)
        await in_thread(self._observe, (episode_id, generation), writer, turn, row)

    async def checkpoint(self, episode_id: str, generation: int, writer: Writer, turn: int, name: str) -> None:
        await in_thread(self._checkpoint, (episode_id, generation), writer, turn, name)

    async def close(self, episode_id: str, generation: int) -> None:
        await in_thread(self._close, (episode_id, generation))

    async def _answer(
        self, observations: Sequence[Observation], faults: Sequence[str], now_s: int
    ) -> dict[str, Any]:
        shown = canonical([observation.model_dump(mode="json") for observation in observations])
        row: dict[str, Any] = {"shown": shown, "shown_object": None, "faults": canonical(faults), "now_s": now_s}
        if len(shown) > INLINE_BYTES:  # the object first: a row never names one that is not there
            row |= {"shown": None, "shown_object": await self._objects.put(shown)}
        return row

    async def _row_of(self, turn: TurnRecord) -> dict[str, Any]:
        if turn.observations is None:
            raise ValueError(f"turn {turn.turn} has not ended: no journal begins with it")
        answer = await self._answer(turn.observations, turn.faults, turn.now_s)
        decided = {"turn": turn.turn, "decision": canonical(turn.decision), "checkpoint": turn.checkpoint or None}
        return {**decided, **answer}

    def _take(self, key: Key, writer: Writer) -> Writer | None:
        return self._turn_token(key, lambda token: token.taken_by(writer)).holder

    def _close(self, key: Key) -> None:
        self._turn_token(key, Token.sealed)

    def _turn_token(self, key: Key, turned: Callable[[Token], Token]) -> Token:
        """Give the journal another token, and tell the one that it had; the journal is made if need be."""
        with self._database.transaction() as connection:
            held = _token(connection, key)
            statement = INSERT_JOURNAL if held is None else UPDATE_TOKEN
            values = {**_named(key, "" if held is None else HELD), "token": canonical(turned(held or Token()))}
            connection.execute(statement, values)
        return held or Token()

    def _inherited(self, key: Key) -> str:
        with self._database.reading() as connection:
            return next((row["inherited"] or "" for row in rows_of(connection, INHERITED, **_named(key))), "")

    def _begin(self, key: Key, rows: Sequence[Row], inherited: str) -> None:
        with self._database.transaction() as connection:
            held = _token(connection, key)
            if held is None:
                begun = {"token": canonical(Token()), "inherited": inherited}
                connection.execute(BEGIN_JOURNAL, {**_named(key), **begun})
            (held or Token()).require_open()
            there = {row["turn"] for row in rows_of(connection, ALL_TURNS, **_named(key))}
            missing = [{**_named(key), **row} for row in rows if row["turn"] not in there]
            if missing:
                connection.execute(INSERT_TURN, missing)

    def _decide(self, key: Key, writer: Writer, turn: int, decision: Decision) -> None:
        with self._writing(key, writer) as connection:
            if not rows_of(connection, IS_TURN, **_named(key), turn=turn):
                values = {**_named(key), "turn": turn, "decision": canonical(decision)}
                connection.execute(INSERT_TURN, values)

    def _observe(self, key: Key, writer: Writer, turn: int, answered: dict[str, Any]) -> None:
        with self._writing(key, writer) as connection:
            place = _named(key, HELD) | {f"{HELD}turn": turn}
            done = connection.execute(OBSERVE, {**answered, **place}).rowcount
            if not done and not rows_of(connection, IS_TURN, **_named(key), turn=turn):
                raise ValueError(f"turn {turn} is observed before its decision was journalled")

    def _checkpoint(self, key: Key, writer: Writer, turn: int, name: str) -> None:
        with self._writing(key, writer) as connection:
            if not rows_of(connection, HAS_ENDED, **_named(key), turn=turn):
                raise ValueError(f"turn {turn} has not ended, and has no checkpoint")
            place = _named(key, HELD) | {f"{HELD}turn": turn}
            connection.execute(CHECKPOINT, {"checkpoint": name, **place})

    @contextmanager
    def _writing(self, key: Key, writer: Writer) -> Iterator[Connection]:
        """One transaction of whoever holds the token, which is locked first. An error takes everything back."""
        with self._database.transaction() as connection:
            (_token(connection, key) or Token()).require(writer)
            yield connection

    def _newest(self, episode_id: str) -> int:
        with self._database.reading() as connection:
            (found,) = rows_of(connection, NEWEST, episode_id=episode_id)
            return found["generation"] or 0

    def _rows(self, key: Key) -> list[Row]:
        with self._database.reading() as connection:
            return rows_of(connection, ALL_TURNS, **_named(key))

    async def _record_of(self, row: Row) -> TurnRecord:
        shown = row["shown"] if row["shown_object"] is None else await self._objects.get(row["shown_object"])
        return TurnRecord.model_validate(
            {
                "turn": row["turn"],
                "decision": _loaded(row["decision"]),
                "observations": None if shown is None else _loaded(shown),
                "faults": _loaded(row["faults"]),
                "now_s": row["now_s"],
                "checkpoint": row["checkpoint"] or "",
            }
        )


def _named(key: Key, prefix: str = "") -> dict[str, Any]:
    return {f"{prefix}episode_id": key[0], f"{prefix}generation": key[1]}


def _token(connection: Connection, key: Key) -> Token | None:
    """The token of a journal, held until the transaction ends; ``None`` for a journal that is not there yet."""
    found = rows_of(connection, HOLD, **_named(key))
    return Token.model_validate(_loaded(found[0]["token"])) if found else None


def _loaded(document: bytes) -> Any:
    return json.loads(document.decode("utf-8", "surrogatepass"))
