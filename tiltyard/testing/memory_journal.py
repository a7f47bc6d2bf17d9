"""A journal in memory, for tests and for trying things out. It passes the same kit as the drivers."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from schemas.decision import Decision
from schemas.journal import TurnRecord, Writer
from schemas.observation import Observation
from tiltyard.journal_token import Token

__all__ = ["MemoryJournal"]


@dataclass
class _Book:
    token: Token = field(default_factory=Token)
    turns: dict[int, TurnRecord] = field(default_factory=dict)
    inherited: str = ""


class MemoryJournal:
    """Implements ``tiltyard.ports.Journal``. No method awaits anything, so each is atomic on its event loop."""

    def __init__(self) -> None:
        self._books: dict[tuple[str, int], _Book] = {}

    async def take(self, episode_id: str, generation: int, writer: Writer) -> Writer | None:
        book = self._book(episode_id, generation)
        before, book.token = book.token.holder, book.token.taken_by(writer)
        return before

    async def read(self, episode_id: str, generation: int) -> tuple[TurnRecord, ...]:
        turns = self._book(episode_id, generation).turns
        return tuple(turns[turn] for turn in sorted(turns))

    async def newest(self, episode_id: str) -> int:
        begun = (key for key, book in self._books.items() if book.turns)
        return max((generation for known, generation in begun if known == episode_id), default=0)

    async def begin(
        self, episode_id: str, generation: int, turns: Sequence[TurnRecord], inherited: str = ""
    ) -> None:
        book = self._book(episode_id, generation)
        book.token.require_open()
        if any(turn.observations is None for turn in turns):
            raise ValueError("a turn has not ended: no journal begins with it")
        for turn in turns:
            book.turns.setdefault(turn.turn, turn)
        book.inherited = book.inherited or inherited

    async def inherited(self, episode_id: str, generation: int) -> str:
        return self._book(episode_id, generation).inherited

    async def decide(self, episode_id: str, generation: int, writer: Writer, turn: int, decision: Decision) -> None:
        book = self._book(episode_id, generation)
        book.token.require(writer)
        book.turns.setdefault(turn, TurnRecord(turn=turn, decision=decision))

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
        book = self._book(episode_id, generation)
        book.token.require(writer)
        if turn not in book.turns:
            raise ValueError(f"turn {turn} is observed before its decision was journalled")
        if book.turns[turn].observations is None:
            answered = {"observations": observations, "faults": faults, "now_s": now_s}
            book.turns[turn] = book.turns[turn].model_copy(update=answered)

    async def checkpoint(self, episode_id: str, generation: int, writer: Writer, turn: int, name: str) -> None:
        book = self._book(episode_id, generation)
        book.token.require(writer)
        record = book.turns.get(turn)
        if record is None or record.observations is None:
            raise ValueError(f"turn {turn} has not ended, and has no checkpoint")
        book.turns[turn] = record.model_copy(update={"checkpoint": record.checkpoint or name})

    async def close(self, episode_id: str, generation: int) -> None:
        book = self._book(episode_id, generation)
        book.token = book.token.sealed()

    def _book(self, episode_id: str, generation: int) -> _Book:
        return self._books.setdefault((episode_id, generation), _Book())
