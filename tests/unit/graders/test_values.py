"""Comparing values, finding facts, and pairing: against plain definitions."""

from itertools import permutations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from schemas.base import JsonValue
from tiltyard.graders.pairing import pair
from tiltyard.graders.values import differing, leaves, member, same, says, shown, tokens

JSON: st.SearchStrategy[JsonValue] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize(
    ("text", "fact", "found"),
    [
        ("it costs $1,095.55 today", "1095.55", True),
        ("it costs 1095.550", "1095.55", True),
        ("it costs 11095.55", "1095.55", False),
        ("481.50 refunded.", "481.5", True),
        ("481 refunded", "481.5", False),
        ("CHICAGO, il 60621", "Chicago", True),
        ("CHICAGO, il 60621", "IL", True),
        ("mild", "IL", False),
        ("takes 20 hours", "20 hours", True),
        ("takes 120 hours", "20 hours", False),
        ("order #w-12", "W 12", True),
        ("007", "7", True),
        ("a", "", False),
        ("say !?", "!?", True),
    ],
)
def test_facts_are_found_as_whole_words_and_numbers(text: str, fact: str, found: bool) -> None:
    assert says(iter([text]), fact) == found


@pytest.mark.parametrize(
    ("value", "content", "found"),
    [
        ("R-1", {"id": "R-1"}, True),
        ("R-1", {"id": "R-10"}, False),
        ("R-1", "see R-1.", True),
        ("R-1", "see R-1-b", False),
        ("R", {"id": "R-1"}, False),
        (481.5, "481.50 back", True),
        ("$481.50", {"amount": 481.5}, True),
        (5, {"amount": 6}, False),
        (["a", "b"], {"a": ["b"]}, True),
        (["a", "c"], {"a": ["b"]}, False),
        (True, {"ok": True}, True),
        (True, {"ok": False}, False),
        ("", {"id": ""}, False),
    ],
)
def test_evidence_is_shown_whole(value: JsonValue, content: JsonValue, found: bool) -> None:
    assert shown(value, [content]) == found


@settings(deadline=None)
@given(JSON, JSON)
def test_two_values_are_the_same_when_nothing_differs(a: JsonValue, b: JsonValue) -> None:
    assert same(a, a)
    assert list(differing(a, a)) == []
    assert same(a, b) == (list(differing(a, b)) == [])


@settings(deadline=None)
@given(JSON, st.text(max_size=6))
def test_paths_texts_and_tokens_of_any_value(value: JsonValue, path: str) -> None:
    member(value, path)
    for text in leaves(value, keys=True):
        assert says(iter([text]), text) == bool(tokens(text) or text.strip())


@settings(deadline=None)
@example([[0, 1], [0]], 2, 2)  # the first slot must let its thing go
@example([[0], [0, 1]], 1, 2)
@example([[0, 1], [0, 2], [0]], 3, 3)  # and so must two in a row
@example([[0, 1], [0]], 0, 2)  # a thing finds room when another moves
@given(
    st.lists(st.lists(st.integers(0, 4), max_size=5, unique=True), max_size=5),
    st.integers(0, 5),
    st.integers(0, 5),
)
def test_pairing_fills_and_uses_as_much_as_any_assignment_could(
    fits: list[list[int]], required: int, things: int
) -> None:
    fitting = {slot: [thing for thing in found if thing < things] for slot, found in enumerate(fits)}
    needed = range(min(required, len(fits)))
    paired = pair(fitting, needed, range(things))
    assert all(thing in fitting[slot] for slot, thing in paired.items())
    assert len(set(paired.values())) == len(paired)
    whole = set(needed) <= paired.keys() and set(range(things)) == set(paired.values())
    assert whole == _some_assignment(fitting, needed, things)


def _some_assignment(fitting: dict[int, list[int]], needed: range, things: int) -> bool:
    """Whether some choice of distinct slots holds every thing and leaves no needed slot empty."""
    for slots in permutations(fitting, things):
        if set(needed) <= set(slots) and all(thing in fitting[slot] for thing, slot in enumerate(slots)):
            return True
    return False
