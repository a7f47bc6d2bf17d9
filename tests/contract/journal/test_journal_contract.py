"""Every journal passes the kit, and the kit notices journals that break a promise."""

import pytest

from schemas.decision import Decision
from schemas.journal import TurnRecord, Writer
from schemas.observation import Observation
from tiltyard.testing.journal_kit import JOURNAL_CHECKS, JournalCheck
from tiltyard.testing.memory_journal import MemoryJournal


@pytest.mark.parametrize("check", JOURNAL_CHECKS, ids=lambda check: check.__name__)
async def test_memory_journal(check: JournalCheck) -> None:
    await check(MemoryJournal())


class IgnoresTheToken(MemoryJournal):
    """Whoever writes is let in."""

    async def decide(self, episode_id: str, generation: int, writer: Writer, turn: int, decision: Decision) -> None:
        await self.take(episode_id, generation, writer)
        await super().decide(episode_id, generation, writer, turn, decision)

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
        await self.take(episode_id, generation, writer)
        await super().observe(episode_id, generation, writer, turn, observations, faults, now_s)


class LetsAnyoneTake(MemoryJournal):
    """A slice that starts late takes the token from its successor."""

    async def take(self, episode_id: str, generation: int, writer: Writer) -> None:
        disguised = writer.model_copy(update={"slice_no": 10**6})
        await super().take(episode_id, generation, disguised)
        book = self._book(episode_id, generation)
        book.token = book.token.model_copy(update={"holder": writer})


class KeepsTheLastDecision(MemoryJournal):
    async def decide(self, episode_id: str, generation: int, writer: Writer, turn: int, decision: Decision) -> None:
        book = self._book(episode_id, generation)
        book.token.require(writer)
        kept = book.turns.pop(turn, None)
        await super().decide(episode_id, generation, writer, turn, decision)
        if kept is not None:
            book.turns[turn] = kept.model_copy(update={"decision": decision})


class ForgetsTheSeal(MemoryJournal):
    async def close(self, episode_id: str, generation: int) -> None:
        return None


class MixesGenerations(MemoryJournal):
    async def read(self, episode_id: str, generation: int) -> tuple[TurnRecord, ...]:
        return tuple(turn for book in self._books.values() for turn in book.turns.values())


@pytest.mark.parametrize(
    "sabotaged",
    [IgnoresTheToken, LetsAnyoneTake, KeepsTheLastDecision, ForgetsTheSeal, MixesGenerations],
)
async def test_the_kit_catches(sabotaged: type[MemoryJournal]) -> None:
    caught = []
    for check in JOURNAL_CHECKS:
        try:
            await check(sabotaged())
        except Exception:
            caught.append(check.__name__)
    assert caught
