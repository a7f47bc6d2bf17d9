"""What every journal must do. Each check gets an empty journal and raises ``AssertionError`` when it is not so."""

import asyncio
from collections.abc import Awaitable, Callable

from schemas.decision import Call, Decision
from schemas.journal import TurnRecord, Writer
from schemas.observation import Observation
from tiltyard.errors import JournalClosed, Replaced, TiltyardError
from tiltyard.ports import Journal

__all__ = ["JOURNAL_CHECKS", "JournalCheck"]

JournalCheck = Callable[[Journal], Awaitable[None]]

EPISODE, GENERATION = "ep-1", 3
FIRST = Writer(run_id="run-1", slice_no=4, attempt_id="a")
RETRY = FIRST.model_copy(update={"attempt_id": "b"})
ASK = Decision(thought="look it up", calls=(Call(tool="find", arguments={"name": "Zoë"}),))
OTHER = Decision(give_up="no idea")
SHOWN = (Observation(tool="find", status="ok", content={"id": 7}), Observation(tool="find", status="timeout"))
LARGE = (Observation(tool="find", status="ok", content="x" * 100_000),)


async def _decide(journal: Journal, writer: Writer, turn: int = 0, decision: Decision = ASK) -> None:
    await journal.decide(EPISODE, GENERATION, writer, turn, decision)


async def _observe(
    journal: Journal, writer: Writer, turn: int = 0, shown: tuple[Observation, ...] = SHOWN, now_s: int = 9
) -> None:
    await journal.observe(EPISODE, GENERATION, writer, turn, shown, ("drop",), now_s)


async def _read(journal: Journal) -> tuple[TurnRecord, ...]:
    return await journal.read(EPISODE, GENERATION)


async def _refused(error: type[TiltyardError], *attempts: Awaitable[object]) -> None:
    ends = await asyncio.gather(*attempts, return_exceptions=True)
    assert all(isinstance(end, error) for end in ends), f"not every write was refused with {error.__name__}: {ends}"


async def an_empty_journal_reads_as_no_turns(journal: Journal) -> None:
    assert await _read(journal) == ()


async def turns_are_read_back_in_order_and_whole(journal: Journal) -> None:
    await journal.take(EPISODE, GENERATION, FIRST)
    for turn in (0, 1, 2, 10):
        await _decide(journal, FIRST, turn)
        await _observe(journal, FIRST, turn, now_s=turn)
    expected = [
        TurnRecord(turn=turn, decision=ASK, observations=SHOWN, faults=("drop",), now_s=turn)
        for turn in (0, 1, 2, 10)
    ]
    assert list(await _read(journal)) == expected


async def a_crash_between_decide_and_observe_shows_as_a_turn_in_flight(journal: Journal) -> None:
    await journal.take(EPISODE, GENERATION, FIRST)
    await _decide(journal, FIRST)
    assert await _read(journal) == (TurnRecord(turn=0, decision=ASK, observations=None),)
    await journal.take(EPISODE, GENERATION, RETRY)
    await _observe(journal, RETRY)
    (record,) = await _read(journal)
    assert (record.decision, record.observations) == (ASK, SHOWN)


async def no_observations_are_not_a_turn_in_flight(journal: Journal) -> None:
    await journal.take(EPISODE, GENERATION, FIRST)
    await _decide(journal, FIRST, decision=OTHER)
    await _observe(journal, FIRST, shown=())
    assert (await _read(journal))[0].observations == ()


async def the_first_decision_and_the_first_observations_stand(journal: Journal) -> None:
    await journal.take(EPISODE, GENERATION, FIRST)
    await _decide(journal, FIRST)
    await _decide(journal, FIRST)
    await _decide(journal, FIRST, decision=OTHER)
    await _observe(journal, FIRST)
    await _observe(journal, FIRST, shown=LARGE, now_s=99)
    await _decide(journal, FIRST, decision=OTHER)
    assert await _read(journal) == (
        TurnRecord(turn=0, decision=ASK, observations=SHOWN, faults=("drop",), now_s=9),
    )


async def a_turn_is_observed_only_after_its_decision(journal: Journal) -> None:
    await journal.take(EPISODE, GENERATION, FIRST)
    try:
        await _observe(journal, FIRST)
    except ValueError:
        assert await _read(journal) == ()
        return
    raise AssertionError("observations were accepted for a turn without a decision")


async def large_observations_are_read_back_whole(journal: Journal) -> None:
    await journal.take(EPISODE, GENERATION, FIRST)
    await _decide(journal, FIRST)
    await _observe(journal, FIRST, shown=LARGE)
    assert (await _read(journal))[0].observations == LARGE


async def who_has_not_taken_the_token_may_not_write(journal: Journal) -> None:
    await _refused(Replaced, _decide(journal, FIRST), _observe(journal, FIRST))
    assert await _read(journal) == ()


async def the_last_taker_wins(journal: Journal) -> None:
    successors = [
        RETRY,
        Writer(run_id="run-1", slice_no=5, attempt_id="a"),
        Writer(run_id="run-2", slice_no=0, attempt_id="a"),
    ]
    held = FIRST
    await journal.take(EPISODE, GENERATION, held)
    for turn, successor in enumerate(successors):
        await _decide(journal, held, turn)
        await journal.take(EPISODE, GENERATION, successor)
        await _refused(Replaced, _observe(journal, held, turn), _decide(journal, held, turn + 1))
        assert (await _read(journal))[turn].observations is None
        await _observe(journal, successor, turn)
        held = successor
    assert len(await _read(journal)) == len(successors)


async def a_lower_slice_of_the_same_run_never_wins(journal: Journal) -> None:
    later = Writer(run_id="run-1", slice_no=5, attempt_id="a")
    await journal.take(EPISODE, GENERATION, later)
    await _refused(Replaced, journal.take(EPISODE, GENERATION, FIRST))
    await _decide(journal, later)
    await journal.take(EPISODE, GENERATION, Writer(run_id="run-2", slice_no=0, attempt_id="a"))
    await _refused(Replaced, journal.take(EPISODE, GENERATION, FIRST), _decide(journal, FIRST, 1))


async def who_takes_the_token_is_told_whose_it_was(journal: Journal) -> None:
    later = Writer(run_id="run-1", slice_no=5, attempt_id="a")
    assert await journal.take(EPISODE, GENERATION, FIRST) is None
    assert await journal.take(EPISODE, GENERATION + 1, FIRST) is None, "it is another journal"
    assert await journal.take(EPISODE, GENERATION, RETRY) == FIRST
    await _decide(journal, RETRY)
    await _refused(Replaced, _observe(journal, FIRST))
    assert await journal.take(EPISODE, GENERATION, later) == RETRY
    await _refused(Replaced, journal.take(EPISODE, GENERATION, FIRST))
    assert await journal.take(EPISODE, GENERATION, later) == later, "a take that was refused takes nothing"


async def taking_again_changes_nothing(journal: Journal) -> None:
    await journal.take(EPISODE, GENERATION, FIRST)
    await journal.take(EPISODE, GENERATION, FIRST)
    await _decide(journal, FIRST)
    assert len(await _read(journal)) == 1


async def nothing_is_written_after_the_seal(journal: Journal) -> None:
    await journal.take(EPISODE, GENERATION, FIRST)
    await _decide(journal, FIRST)
    for _ in range(2):
        await journal.close(EPISODE, GENERATION)
        await _refused(
            JournalClosed,
            journal.take(EPISODE, GENERATION, RETRY),
            _decide(journal, FIRST, 1),
            _observe(journal, FIRST),
        )
    assert await _read(journal) == (TurnRecord(turn=0, decision=ASK),)


async def a_journal_can_begin_with_turns_of_another_one(journal: Journal) -> None:
    ended = TurnRecord(turn=0, decision=ASK, observations=SHOWN, faults=("drop",), now_s=4, checkpoint="sha256:1")
    earlier = (ended, ended.model_copy(update={"turn": 1, "observations": LARGE, "checkpoint": ""}))
    assert await journal.inherited(EPISODE, GENERATION) == ""
    await journal.begin(EPISODE, GENERATION, earlier, "sha256:2")
    assert await _read(journal) == earlier
    await journal.take(EPISODE, GENERATION, FIRST)
    await _decide(journal, FIRST, 2, OTHER)
    await journal.begin(EPISODE, GENERATION, (earlier[0].model_copy(update={"now_s": 99}), earlier[1]), "sha256:3")
    assert await journal.inherited(EPISODE, GENERATION) == "sha256:2"
    assert await _read(journal) == (*earlier, TurnRecord(turn=2, decision=OTHER)), "what stands was written over"
    await journal.close(EPISODE, GENERATION)
    await _refused(JournalClosed, journal.begin(EPISODE, GENERATION, earlier))
    assert await journal.inherited(EPISODE, GENERATION) == "sha256:2", "whoever closes the episode asks for it"


async def no_journal_begins_with_a_turn_in_flight(journal: Journal) -> None:
    try:
        await journal.begin(EPISODE, GENERATION, (TurnRecord(turn=0, decision=ASK),))
    except ValueError:
        assert await _read(journal) == ()
    else:
        raise AssertionError("a turn in flight was taken over: its calls would be sent again under other ids")


async def a_journal_that_nobody_took_can_be_sealed(journal: Journal) -> None:
    await journal.close(EPISODE, GENERATION)
    await _refused(JournalClosed, journal.take(EPISODE, GENERATION, FIRST))


async def episodes_and_generations_are_apart(journal: Journal) -> None:
    await journal.take(EPISODE, GENERATION, FIRST)
    await _decide(journal, FIRST)
    await journal.close(EPISODE, GENERATION)
    for episode, generation in ((EPISODE, GENERATION + 1), ("ep-2", GENERATION)):
        assert await journal.read(episode, generation) == ()
        await journal.take(episode, generation, RETRY)
        await journal.decide(episode, generation, RETRY, 0, OTHER)
    assert (await _read(journal))[0].decision == ASK


async def of_several_writers_at_once_one_wins_all(journal: Journal) -> None:
    writers = [Writer(run_id="run-1", slice_no=4, attempt_id=f"w{n}") for n in range(4)]
    await asyncio.gather(*(journal.take(EPISODE, GENERATION, writer) for writer in writers))

    async def write(writer: Writer) -> str:
        for turn in range(8):
            await _decide(journal, writer, turn, Decision(thought=writer.attempt_id, give_up="x"))
            await _observe(journal, writer, turn, (Observation(tool=writer.attempt_id, status="ok"),))
        return writer.attempt_id

    ends = await asyncio.gather(*(write(writer) for writer in writers), return_exceptions=True)
    (winner,) = [end for end in ends if isinstance(end, str)]
    assert [end for end in ends if isinstance(end, Replaced)] == [end for end in ends if end != winner], ends
    assert [(record.turn, record.decision.thought) for record in await _read(journal)] == [
        (turn, winner) for turn in range(8)
    ]


async def a_writer_replaced_in_mid_turn_leaves_the_rest_to_its_successor(journal: Journal) -> None:
    await journal.take(EPISODE, GENERATION, FIRST)
    await _decide(journal, FIRST)
    late, _ = await asyncio.gather(
        _observe(journal, FIRST, shown=LARGE), journal.take(EPISODE, GENERATION, RETRY), return_exceptions=True
    )
    assert late is None or isinstance(late, Replaced)
    await _observe(journal, RETRY)
    (record,) = await _read(journal)
    assert record.observations == (LARGE if late is None else SHOWN)


async def a_checkpoint_belongs_to_a_turn_that_has_ended(journal: Journal) -> None:
    await journal.take(EPISODE, GENERATION, FIRST)
    await _decide(journal, FIRST)
    try:
        await journal.checkpoint(EPISODE, GENERATION, FIRST, 0, "sha256:early")
    except ValueError:
        pass
    else:
        raise AssertionError("a turn under way was given a checkpoint")
    await _observe(journal, FIRST)
    await _refused(Replaced, journal.checkpoint(EPISODE, GENERATION, RETRY, 0, "sha256:strange"))
    await journal.checkpoint(EPISODE, GENERATION, FIRST, 0, "sha256:one")
    await journal.checkpoint(EPISODE, GENERATION, FIRST, 0, "sha256:other")
    assert [record.checkpoint for record in await _read(journal)] == ["sha256:one"]
    await journal.close(EPISODE, GENERATION)
    await _refused(JournalClosed, journal.checkpoint(EPISODE, GENERATION, FIRST, 0, "sha256:late"))


async def the_newest_generation_is_the_last_that_has_a_turn(journal: Journal) -> None:
    assert await journal.newest(EPISODE) == 0
    await journal.take(EPISODE, GENERATION, FIRST)
    assert await journal.newest(EPISODE) == 0, "a journal that was taken has no turn yet"
    await _decide(journal, FIRST)
    assert await journal.newest(EPISODE) == GENERATION
    for episode, generation in ((EPISODE, GENERATION + 7), (EPISODE, GENERATION + 2), ("ep-2", GENERATION + 9)):
        await journal.take(episode, generation, FIRST)
        await journal.decide(episode, generation, FIRST, 0, ASK)
    await journal.take(EPISODE, GENERATION + 8, FIRST)
    assert await journal.newest(EPISODE) == GENERATION + 7


JOURNAL_CHECKS: tuple[JournalCheck, ...] = (
    an_empty_journal_reads_as_no_turns,
    turns_are_read_back_in_order_and_whole,
    a_crash_between_decide_and_observe_shows_as_a_turn_in_flight,
    no_observations_are_not_a_turn_in_flight,
    the_first_decision_and_the_first_observations_stand,
    a_turn_is_observed_only_after_its_decision,
    large_observations_are_read_back_whole,
    a_checkpoint_belongs_to_a_turn_that_has_ended,
    the_newest_generation_is_the_last_that_has_a_turn,
    who_has_not_taken_the_token_may_not_write,
    the_last_taker_wins,
    a_lower_slice_of_the_same_run_never_wins,
    who_takes_the_token_is_told_whose_it_was,
    taking_again_changes_nothing,
    nothing_is_written_after_the_seal,
    a_journal_can_begin_with_turns_of_another_one,
    no_journal_begins_with_a_turn_in_flight,
    a_journal_that_nobody_took_can_be_sealed,
    episodes_and_generations_are_apart,
    of_several_writers_at_once_one_wins_all,
    a_writer_replaced_in_mid_turn_leaves_the_rest_to_its_successor,
)
