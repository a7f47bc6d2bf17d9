"""A sequence of calls on a fresh namespace."""

from schemas.base import JsonObject
from tiltyard.testing.tally_world import TALLY
from tiltyard.worlds.sequence import Sequences

ADD: tuple[str, JsonObject] = ("add", {"name": "apples", "amount": 2})


def test_each_sequence_starts_from_the_template_whatever_came_before() -> None:
    sequences = Sequences(TALLY, TALLY.template("default", {}))
    first, second = sequences.play([ADD, ADD]), sequences.play([ADD])
    assert [change.after for change in first.facts.changes] != [change.after for change in second.facts.changes]
    assert sequences.play([ADD]).facts.changes == second.facts.changes
    assert len(second.facts.deliveries) == 1


def test_a_refused_call_is_shown_and_the_rest_is_played() -> None:
    played = Sequences(TALLY, TALLY.template("default", {})).play([("add", {"name": 7}), ("nothing", {}), ADD])
    assert [(shown.status, shown.code) for shown in played.shown][::2] == [("error", "bad_arguments"), ("ok", "")]
    assert played.shown[1].status == "error"
    assert len(played.facts.changes) == 1
