"""Thirty virtual days and thousands of turns, the same however they are sliced."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from temporalio.client import Client

from schemas.base import JsonValue, digest_of
from schemas.decision import Decision
from schemas.episode import End, EpisodeResult
from schemas.evidence import Evidence
from schemas.start import Tuning
from schemas.task import Limits, Task, ViewLimit
from schemas.view import View
from tests.workflow.arena import Arena, Handle, arena, calls, tally_task, until
from tiltyard.episode.progress import Progress
from tiltyard.trace import unpack

DAY = 86_400
DAYS = 30
EVERY = 20
"""Each so many turns put work off, which falls due on the way, and wait for the next part of the thirty days."""


class Clerk:
    """Works for thirty days, and asks for leave in the middle. What it was told then it knows from the summary.
    Its thoughts say what it was shown, so that the digest of the trace covers the summaries.

    ``views`` are the sizes of what it was shown: turns, and whether there was a summary.
    """

    def __init__(self, turns: int) -> None:
        self.turns = turns
        self.views: list[tuple[int, bool]] = []

    def __call__(self, view: View) -> Decision:
        self.views.append((len(view.transcript), view.summary is not None))
        turn = view.turn
        if turn == self.turns - 1:
            return Decision(submit={"leave": _leave(view), "memo": view.memo})
        if turn == self.turns // 2:
            return Decision(ask="May I go on?", memo=view.memo)
        shown = digest_of([view.summary, len(view.transcript), view.budgets])
        return self._work(turn).model_copy(update={"memo": turn, "thought": shown})

    def _work(self, turn: int) -> Decision:
        if turn % EVERY == EVERY - 1:
            return calls("wait", seconds=DAYS * DAY * EVERY // (self.turns - EVERY))
        if turn % EVERY == 0:
            return calls("add_later", name=f"t{turn % 97}", after_s=DAY + turn, operation_id=f"later-{turn}")
        if turn % 3:
            return calls("add", name=f"t{turn % 97}", amount=turn % 991, operation_id=f"add-{turn}")
        return calls("read", name="apples" if turn % 2 else "pears")


def _leave(view: View) -> JsonValue:
    """What a person answered: it is in the summary long before the end."""
    assert view.summary is not None
    (told,) = view.summary.answers
    return told.observation.content


def long_task(turns: int) -> Task:
    return tally_task(limits=Limits(turns=turns, tool_calls=2 * turns), view=ViewLimit(tokens=2_000))


async def play(place: Arena, turns: int, tuning: Tuning) -> tuple[EpisodeResult, Handle]:
    """One episode to its end, with a person who answers."""
    spec = await place.plan(long_task(turns), "clerk")
    handle = await place.start(spec, tuning)
    chain: Handle = place.client.get_workflow_handle(handle.id)
    await until(lambda: _asks(place, spec.episode_id), seconds=1800)
    await place.ground.answer(spec.episode_id, "go on")
    await chain.result()
    return await place.outcome(spec), chain


async def _asks(place: Arena, episode_id: str) -> bool:
    await asyncio.sleep(0.1)
    return bool((await place.ground.status(episode_id)).question)


async def runs_of(client: Client, workflow_id: str) -> Iterator[int]:
    """The events of each run of a chain, the newest first."""
    run_id, events = (await client.get_workflow_handle(workflow_id).describe()).run_id, []
    while run_id:
        history = await client.get_workflow_handle(workflow_id, run_id=run_id).fetch_history()
        events.append(len(history.events))
        run_id = history.events[0].workflow_execution_started_event_attributes.continued_execution_run_id
    return iter(events)


async def evidence_of(place: Arena, result: EpisodeResult) -> Evidence:
    return unpack(await place.objects.get(result.trace)).evidence


SLICED = {
    "one turn each": Tuning(slice_turns=1, slices_per_run=90),
    "50 turns each": Tuning(slice_turns=50, slices_per_run=3),
    "by time": Tuning(slice_s=0.02, slices_per_run=2),
}


@pytest.mark.parametrize(
    "turns", [pytest.param(500, id="500 turns"), pytest.param(5_000, id="5000 turns", marks=pytest.mark.chaos)]
)
@pytest.mark.timeout(3_000)
async def test_thirty_days_are_the_same_however_they_are_sliced(client: Client, tmp_path: Path, turns: int) -> None:
    clerk = Clerk(turns)
    digests: dict[str, str] = {}
    async with arena(client, {"clerk": clerk}, tmp_path) as place, place.worker():
        for name, tuning in SLICED.items():
            result, chain = await play(place, turns, tuning)
            assert (result.end, result.counts.turns) == (End.SUBMITTED, turns), result.reason
            assert result.answer == {"leave": "go on", "memo": turns - 2}
            assert result.counts.duplicates == 0
            events = list(await runs_of(client, chain.id))
            print(f"{turns} turns, {name}: {result.timings['turns'] / turns * 1000:.2f} ms a turn, runs {events}")
            assert len(events) > 2, "it has not continued as new"
            assert max(events) < 40 + 20 * tuning.slices_per_run
            digests[name] = result.digests.trace
        evidence = await evidence_of(place, result)
        _assert_thirty_days(evidence)
        assert max(shown for shown, _ in clerk.views) < 60, "a view grows with the turns"
        assert len(set(digests.values())) == 1, digests
        assert _summaries(long_task(turns), evidence) > turns // 60


def _assert_thirty_days(evidence: Evidence) -> None:
    """Thirty days have gone by, and what fell due on the way has happened, in its time."""
    assert DAYS * DAY <= evidence.facts.now_s < (DAYS + 2) * DAY
    due = [row for row in evidence.facts.ledger if row.cause_kind == "job" and not row.system]
    assert len(due) > 0.8 * len(evidence.turns) / EVERY
    assert [row.at_s for row in due] == sorted(row.at_s for row in due)


def _summaries(task: Task, evidence: Evidence) -> int:
    """How often the history was summarised, as the trace alone tells it: the full one is kept."""
    progress, summarised = Progress(task), set[int]()
    for turn in evidence.turns:
        progress.add(turn)
        summary = progress.view((), 0, "").summary
        summarised.add(summary.turns if summary is not None else 0)
    return len(summarised)
