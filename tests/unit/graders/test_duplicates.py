"""A duplicate effect does not escape by another spelling of the same arguments."""

import pytest

from schemas.base import JsonObject
from tiltyard.graders.counts import count, duplicate_effects
from tiltyard.testing.engine_bench import Bench


def duplicates(tool: str, *calls: JsonObject) -> int:
    """Calls of one tool in an episode, each of which must take effect; how many of them were duplicates."""
    bench = Bench()
    for turn, arguments in enumerate(calls):
        assert bench.send(tool, arguments, delivery=f"ep-1/1/{turn}/0").committed
    facts = bench.finish()
    assert len(duplicate_effects(facts)) == count(facts, (), 200).duplicates
    return count(facts, (), 200).duplicates


@pytest.mark.parametrize(
    "again",
    [{}, {"amount": 1}, {"operation_id": "another"}, {"operation_id": None}, {"amount": 1, "operation_id": "x"}],
    ids=str,
)
def test_an_omitted_default_equals_the_given_one(again: JsonObject) -> None:
    assert duplicates("add", {"name": "plums"}, {"name": "plums", **again}) == 1


def test_other_arguments_are_another_effect() -> None:
    assert duplicates("add", {"name": "plums"}, {"name": "plums", "amount": 2}, {"name": "apples"}) == 0


@pytest.mark.parametrize("after_s", ["3600", 3600.0, True, [3600]], ids=str)
def test_a_number_has_one_spelling(after_s: object) -> None:
    bench = Bench()
    assert bench.call("add_later", name="plums", after_s=3600).committed
    again = bench.send("add_later", {"name": "plums", "after_s": after_s})  # type: ignore[dict-item]  # wrong on purpose
    assert (again.shown.code, again.committed) == ("bad_arguments", False)
    assert again.shown.message.startswith("after_s: Input should be a valid integer")
