"""Which call a row of the ledger belongs to, where a program's call comes in between the steps of a wait."""

from hypothesis import given
from hypothesis import strategies as st

from schemas.contract import Outcome, StateContract
from schemas.world import DeliveryRecord, DeliveryReply, LedgerRow, Shown
from tests.unit.graders.story import Story as Calls
from tests.unit.graders.story import task_of
from tests.unit.reopen.played import told, traced
from tiltyard.reopen.compare import first_difference
from tiltyard.reopen.ledger_places import rows_placed
from tiltyard.reopen.story import turn_in_full
from tiltyard.trace import Trace

WAIT, INSIDE = (1, 0, 0), (0, 0, 1)
SENT = {WAIT: "episode/7/1/0", INSIDE: "episode/7/0/0/http/1"}


def waited(last: int = 5) -> Trace:
    """Turn 1 waits over rows 1 to 5. Row 3 is of a program that turn 0 had left, row 2 of a job that fell due as it
    called; jobs at rows 1, 4 and 5 fell due in the wait."""
    calls = Calls().call("look").call("wait", seconds=9)
    calls.rows(("orders", "o-1", None, {"n": 1}), cause="job-1")
    calls.rows(("orders", "o-1", {"n": 1}, {"n": 2}), cause="job-2")
    calls.inside(SENT[INSIDE], "order", ("orders", "o-1", {"n": 2}, {"n": 3}))
    calls.rows(("orders", "o-1", {"n": 3}, {"n": 4}), cause="job-3")
    calls.rows(("orders", "o-1", {"n": 4}, {"n": last}), cause="job-4")
    spans = {"episode/7/0/0": (1, 0), SENT[WAIT]: (1, 5), SENT[INSIDE]: (2, 3)}
    calls.deliveries = [spanned(one, *spans[one.delivery_id]) for one in calls.deliveries]
    return traced(calls, task_of(StateContract(outcomes=(Outcome(),))))


def spanned(record: DeliveryRecord, first: int, last: int) -> DeliveryRecord:
    assert record.reply is not None
    return record.model_copy(update={"reply": record.reply.model_copy(update={"first": first, "last": last})})


def test_a_job_belongs_to_the_innermost_call_around_it() -> None:
    facts = waited().evidence.facts
    found = [place for place, _ in rows_placed(facts.ledger, facts.deliveries)]
    assert found == [WAIT, INSIDE, INSIDE, WAIT, WAIT]


def test_the_story_tells_each_row_at_that_call() -> None:
    story = told(waited())
    look, wait = (turn.calls[0] for turn in story.turns)
    assert [change.position for change in wait.changes] == [1, 4, 5]
    assert [[change.position for change in one.changes] for one in look.inside] == [[2, 3]]
    assert (look.changes, story.later) == ((), ())


def test_a_turn_in_full_has_the_same_rows() -> None:
    assert [row.position for row in turn_in_full(waited(), 0).ledger] == [2, 3]
    assert [row.position for row in turn_in_full(waited(), 1).ledger] == [1, 4, 5]


def test_a_difference_is_found_at_the_same_call() -> None:
    found = first_difference(waited(), waited(last=6))
    assert found is not None
    assert (found.turn, found.call, found.what) == (1, 0, "change")


SPANS = st.lists(st.tuples(st.integers(1, 9), st.integers(0, 9)), max_size=6, unique=True)


@given(SPANS)
def test_of_any_calls_around_a_row_it_is_the_one_that_began_last(spans: list[tuple[int, int]]) -> None:
    deliveries = [answered(turn, *span) for turn, span in enumerate(spans)]
    rows = [job_row(position) for position in range(1, 10)]
    for place, row in rows_placed(reversed(rows), deliveries):
        around = [(first, -last, turn) for turn, (first, last) in enumerate(spans) if first <= row.position <= last]
        assert place == ((max(around)[2], 0, 0) if around else None)


def answered(turn: int, first: int, last: int) -> DeliveryRecord:
    sent = f"episode/7/{turn}/0"
    reply = DeliveryReply(
        delivery_id=sent, shown=Shown(status="ok"), committed=False, first=first, last=last, now_s=0
    )
    return DeliveryRecord(
        delivery_id=sent, tool="wait", arguments={}, request_digest="", arguments_digest="", reply=reply
    )


def job_row(position: int) -> LedgerRow:
    return LedgerRow(
        position=position,
        cause_kind="job",
        cause="job-1",
        tool="job",
        world="shop",
        collection="orders",
        key="o-1",
        at_s=0,
    )
