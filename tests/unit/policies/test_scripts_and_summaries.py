"""Scripts where older turns are summarised: they say that they cannot go on; the reference goes on by its memo."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.decision import Decision
from schemas.episode import End
from schemas.evidence import Evidence
from schemas.observation import Observation
from schemas.task import Reference, Step, Task, ViewLimit
from schemas.view import Budgets, HistorySummary, Turn, View
from tests.unit.episode.summarised import limited
from tiltyard.episode.decisions import MAX_MEMO_BYTES
from tiltyard.episode.progress import Progress
from tiltyard.errors import PolicyFailed
from tiltyard.policies.catalogue import open_script
from tiltyard.policies.script import Brief, Moves, ScriptPolicy, call, submit
from tiltyard.ports import Policy
from tiltyard.suite import shipped
from tiltyard.testing.memory_worlds import MemoryWorlds
from tiltyard.testing.rehearse import rehearse
from tiltyard.testing.tally_world import TALLY
from tiltyard.trace import trace_digest
from tiltyard.worlds.engine import Engine
from tiltyard.worlds.registry import worlds

LOST = shipped().task("replacement/reply-lost/1")


def reads(count: int) -> tuple[Step, ...]:
    """Steps that fill a view, of which the first is named."""
    named = [Step(name="first", tool="add", arguments={"name": "apples", "amount": 3})]
    more = [Step(tool="read", arguments={"name": name}) for name in ("apples", "pears") * count]
    return (*named, *more, Step(submit={"total": "${steps.first.total}"}))


def long_task() -> Task:
    return limited(references=(Reference(steps=reads(120)),))


def play(task: Task, policy: Policy) -> Evidence:
    return asyncio.run(rehearse(task, policy, Engine({"tally": TALLY, **worlds()}, MemoryWorlds())))


def test_the_reference_plays_a_long_task_by_its_memo() -> None:
    task = long_task()
    evidence = play(task, open_script("reference", task))
    assert evidence.ending.end is End.SUBMITTED
    assert evidence.turns[-1].decision.submit == {"total": 3}
    assert Progress(task, evidence.turns).view((), 0, "").summary is not None, "nothing was summarised"
    memos = [turn.decision.memo for turn in evidence.turns if turn.decision.memo is not None]
    assert memos[-1] == {"reference": "reference", "done": 241, "seen": {"first": {**_first(evidence)}}}


def _first(evidence: Evidence) -> dict[str, object]:
    (shown,) = evidence.turns[0].observations or ()
    assert isinstance(shown.content, dict)
    return dict(shown.content)


def test_what_no_later_step_names_is_not_kept() -> None:
    steps = (Step(name="look", tool="read", arguments={"name": "apples"}), *reads(1))
    task = limited(references=(Reference(steps=steps),))
    evidence = play(task, open_script("reference", task))
    assert evidence.turns[1].decision.memo == {"reference": "reference", "done": 2, "seen": {}}


def test_without_a_limit_the_reference_keeps_no_memo_and_its_digest() -> None:
    plain = long_task().model_copy(update={"view": None})
    evidence = play(plain, open_script("reference", plain))
    assert all(turn.decision.memo is None for turn in evidence.turns)


def test_a_reference_ignores_a_memo_that_is_not_its_own() -> None:
    task = long_task()
    progress = Progress(task, ())
    for memo in (
        None,
        "seen",
        {"reference": "other", "done": 3, "seen": {}},
        {"reference": "reference", "done": 999},
    ):
        view = progress.view((), 0, "").model_copy(update={"memo": memo, "turn": 7})
        decision = asyncio.run(open_script("reference", task).act(view))
        assert decision.calls == call("add", name="apples", amount=3).calls


def test_another_script_says_that_it_cannot_go_on() -> None:
    def looks(brief: Brief) -> Moves:
        for number in range(200):
            yield call("read", name=f"t{number % 2}")
        return submit({})

    evidence = play(long_task(), ScriptPolicy(looks))
    assert evidence.ending.end is End.POLICY_ERROR
    assert "turns are summarised here" in evidence.ending.reason


def test_a_script_that_is_done_before_the_first_summary_does_not_mind() -> None:
    task = LOST.model_copy(update={"view": ViewLimit(tokens=100_000)})
    assert play(task, open_script("reconcile", task)).ending.end is End.SUBMITTED


# A policy that sees nothing but the summary.


class FromTheSummary:
    """Orders, fills its view until nothing of that is shown any more, and finishes by the summary alone."""

    async def act(self, view: View) -> Decision:
        if view.turn == 0:
            return call("get_approval", approval_id="A-503")
        if view.turn == 1:
            order = {"ticket_id": "T-2301", "serial": "SN-20447", "model": "aria-7", "approval_id": "A-503"}
            return call("create_replacement", **order, operation_id="mine")
        summary = view.summary
        if summary is None or summary.turns < 2:
            return call("get_policy" if view.turn % 2 else "get_ticket", **_read(view.turn))
        receipt = next((one for one in summary.operations if one.observation.tool == "get_receipt"), None)
        shown = view.transcript[-1].observations[0]
        if shown.tool == "get_receipt" and isinstance(shown.content, dict) and receipt is None:
            return call("close_ticket", **_closing(shown.content["result"]))
        if shown.tool == "close_ticket" and isinstance(shown.content, dict):
            return submit({"outcome": "replaced", "replacement_id": "R-1001"})
        (doubt,) = summary.in_doubt
        assert isinstance(doubt.arguments, dict)
        return call("get_receipt", operation_id=doubt.arguments["operation_id"])


def _read(turn: int) -> dict[str, str]:
    return {"policy_id": "POL-1"} if turn % 2 else {"ticket_id": "T-2301"}


def _closing(result: object) -> dict[str, str]:
    assert isinstance(result, dict)
    return {"ticket_id": "T-2301", "resolution": "replaced", "replacement_id": str(result["replacement_id"])}


def test_a_policy_that_only_sees_the_summary_finishes_after_a_lost_reply() -> None:
    task = LOST.model_copy(update={"view": ViewLimit(tokens=2_000)})
    evidence = play(task, FromTheSummary())
    assert evidence.ending.end is End.SUBMITTED, evidence.ending
    orders = [row for row in evidence.facts.ledger if row.collection == "replacements" and not row.system]
    assert orders
    assert len({row.key for row in orders}) == 1, "the order was sent once"


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 6), st.booleans()), max_size=12))
def test_a_script_that_goes_on_from_its_last_view_decides_as_one_that_begins_anew(
    asked: list[tuple[int, bool]],
) -> None:
    """Whatever it was asked before: shorter views, longer ones, turns of somebody else."""

    def sums(brief: Brief) -> Moves:
        total = 0
        for _ in range(6):
            shown = yield call("look", at=total)
            total += int(str(shown.content))
        return submit({"total": total})

    kept = ScriptPolicy(sums)

    def turns(count: int, foreign: bool) -> tuple[Turn, ...]:
        made, total = [], 0
        if foreign:
            made.append(Turn(decision=call("dance"), observations=()))
        for number in range(count):
            shown = Observation(tool="look", status="ok", content=number + foreign)
            made.append(Turn(decision=call("look", at=total), observations=(shown,)))
            total += number + foreign
        return tuple(made)

    for count, foreign in asked:
        shown = turns(count, foreign)
        view = View(
            instruction="",
            tools=(),
            transcript=shown,
            budgets=Budgets(turns=9, tool_calls=9),
            seed=1,
            turn=len(shown),
        )
        assert asyncio.run(kept.act(view)) == asyncio.run(ScriptPolicy(sums).act(view))


def test_a_script_s_refusal_names_the_turns() -> None:
    budgets = Budgets(turns=1, tool_calls=1)
    summary = HistorySummary(rule="recent-1", turns=37, goal="", budgets=budgets)
    view = View(instruction="", tools=(), summary=summary, budgets=budgets, seed=1, turn=38)
    with pytest.raises(PolicyFailed, match="its first 37 turns are summarised"):
        asyncio.run(open_script("do_nothing", LOST).act(view))


def test_the_trace_digest_of_a_summarised_episode_is_one_of_its_turns() -> None:
    task = long_task()
    first, second = (play(task, open_script("reference", task)) for _ in range(2))
    digests = {trace_digest(task, one.facts, one.turns, one.ending.end) for one in (first, second)}
    assert len(digests) == 1


def test_a_memo_that_is_too_large_ends_the_episode_and_says_so() -> None:
    """To the byte."""

    def overflowing(size: int) -> Evidence:
        memo = {"seen": "x" * size}

        class Hoards:
            async def act(self, view: View) -> Decision:
                if view.turn == 1:
                    return submit({"kept": view.memo == memo})
                return call("read", name="apples").model_copy(update={"memo": memo})

        return play(long_task(), Hoards())

    most = MAX_MEMO_BYTES - len('{"seen":""}')
    assert overflowing(most).turns[-1].decision.submit == {"kept": True}
    ending = overflowing(most + 1).ending
    assert (ending.end, ending.reason) == (
        End.POLICY_ERROR,
        f"the decision cannot be recorded: memo: {MAX_MEMO_BYTES + 1} bytes, larger than {MAX_MEMO_BYTES}",
    )


def test_a_memo_comes_through_summaries_whole() -> None:
    """The memo is the one of the turn before, whatever was summarised between; no transcript has it."""
    seen: list[object] = []

    class Counts:
        async def act(self, view: View) -> Decision:
            seen.append(view.memo)
            assert all(turn.decision.memo is None for turn in view.transcript)
            if view.turn == 100:
                return submit({"summarised": view.summary is not None})
            looks = call("read", name="apples" if view.turn % 2 else "pears")
            return looks.model_copy(update={"memo": {"turn": view.turn}})

    evidence = play(long_task(), Counts())
    assert evidence.turns[-1].decision.submit == {"summarised": True}
    assert seen == [None, *({"turn": turn} for turn in range(100))]
