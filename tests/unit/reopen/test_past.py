"""The part of a world's past before a turn: whole calls, and nothing that came after."""

import pytest

from schemas.branch import Past
from schemas.world import DeliveryRecord, DeliveryReply, LedgerRow, Shown
from tiltyard.errors import BadInput
from tiltyard.reopen.past import past_of, until_turn
from tiltyard.testing.engine_bench import Bench


def delivery(place: str, first: int, last: int) -> DeliveryRecord:
    sent = f"ep-1/1/{place}"
    reply = DeliveryReply(
        delivery_id=sent, shown=Shown(status="ok"), committed=True, first=first, last=last, now_s=0
    )
    return DeliveryRecord(
        delivery_id=sent, tool="add", arguments={}, request_digest="", arguments_digest="", reply=reply
    )


def row(position: int, place: str) -> LedgerRow:
    """A row that a delivery has caused, or the ``job`` of that name."""
    return LedgerRow(
        position=position,
        cause_kind="job" if place.startswith("job") else "delivery",
        cause=place if place.startswith("job") else f"ep-1/1/{place}",
        tool="add",
        world="tally",
        collection="tallies",
        key="apples",
        after=position,
        at_s=0,
    )


def past(deliveries: list[DeliveryRecord], causes: list[str]) -> Past:
    ledger = tuple(row(position, cause) for position, cause in enumerate(causes, 1))
    return Past(episode_id="ep-1", generation=1, template_digest="t", deliveries=tuple(deliveries), ledger=ledger)


WHOLE = past(
    [
        delivery("0/0", 1, 2),
        delivery("1/0/http/1", 3, 3),
        delivery("1/1", 4, 6),
        delivery("3/0", 7, 6),
        delivery("1/0/http/2", 7, 7),
        delivery("10/0", 8, 8),
        delivery("settle/0", 9, 9),
    ],
    ["0/0", "0/0", "1/0/http/1", "1/1", "job-000001", "1/1", "1/0/http/2", "10/0", "settle/0", "job-000002"],
)


@pytest.mark.parametrize(
    ("turn", "deliveries", "rows"),
    [(0, 0, 0), (1, 1, 2), (2, 3, 6), (3, 3, 6), (4, 5, 7), (10, 5, 7), (11, 6, 8), (99, 6, 8)],
)
def test_what_came_before_a_turn_is_kept_whole(turn: int, deliveries: int, rows: int) -> None:
    kept = until_turn(WHOLE, turn)
    assert (kept.deliveries, kept.ledger) == (WHOLE.deliveries[:deliveries], WHOLE.ledger[:rows])
    assert (kept.episode_id, kept.generation, kept.template_digest) == ("ep-1", 1, "t")
    assert until_turn(kept, turn) == kept


def test_a_call_that_was_under_way_when_the_turn_began_cannot_be_kept() -> None:
    across = past([delivery("0/0/http/1", 1, 3), delivery("1/0", 2, 2)], ["0/0/http/1", "1/0", "0/0/http/1"])
    assert until_turn(across, 0).ledger == ()
    assert until_turn(across, 2) == across
    with pytest.raises(BadInput, match="under way when turn 1 began") as caught:
        until_turn(across, 1)
    assert caught.value.field == "--turn"


def test_nor_can_one_that_still_is() -> None:
    opened = delivery("0/0", 1, 1).model_copy(update={"reply": None})
    whole = past([opened, delivery("1/0", 2, 2)], ["0/0", "1/0"])
    assert until_turn(whole, 0).deliveries == ()
    for turn in (1, 2):
        with pytest.raises(BadInput, match="under way"):
            until_turn(whole, turn)


def test_the_past_of_an_episode_is_what_its_facts_say() -> None:
    bench = Bench()
    bench.call("add", delivery="ep-1/1/0/0", name="apples")
    bench.call("add_later", delivery="ep-1/1/1/0", name="apples", after_s=60)
    so_far = bench.engine.so_far(bench.lease.namespace, bench.lease.generation)
    ended = past_of(bench.finish(), "ep-1")
    assert until_turn(ended, 2) == so_far
    assert ended.ledger[: len(so_far.ledger)] == so_far.ledger
    assert {row.cause_kind for row in ended.ledger[len(so_far.ledger) :]} == {"job"}, "the drain's"
