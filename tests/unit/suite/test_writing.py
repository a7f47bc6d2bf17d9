"""What is written in the dialect of task files reads back as what it was."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from schemas.base import canonical
from tiltyard.errors import BadTask
from tiltyard.suite.reading import parse_yaml
from tiltyard.suite.writing import escaped, yaml_of

WHOLE = some.characters(exclude_categories=["Cs"])
LEAVES = (
    some.none()
    | some.booleans()
    | some.integers(-(10**18), 10**18)
    | some.floats(allow_nan=False, allow_infinity=False)
    | some.text(WHOLE)
    | some.text("yesno~0123456789.e+-:#|>'\"%@`&*!?{}[], \n\t", max_size=12)
)
VALUES: some.SearchStrategy[Any] = some.recursive(
    LEAVES, lambda inner: some.lists(inner) | some.dictionaries(some.text(WHOLE), inner), max_leaves=12
)


@given(some.dictionaries(some.text(WHOLE), VALUES))
def test_any_json_comes_back(value: dict[str, Any]) -> None:
    assert parse_yaml(yaml_of(value).encode(), "it.yaml") == value


@given(some.dictionaries(some.text(WHOLE, max_size=9), some.text(WHOLE, max_size=20), max_size=3))
def test_nothing_in_it_is_hidden_or_reorders_what_is_read(value: dict[str, Any]) -> None:
    assert yaml_of(value).replace("\n", "").isprintable()
    text = escaped(canonical(value).decode())
    assert text.isprintable()
    assert json.loads(text) == value


@pytest.mark.parametrize("hidden", ["\u202e", "\u2066", "\u200f", "\x9b", "\u200b", "\U000e0041"])
def test_a_hidden_character_is_an_escape_among_others_that_are_not(hidden: str) -> None:
    value: dict[str, Any] = {f"é{hidden}": [f"ordered \\{hidden} 漢字", f"one\n{hidden}\n", "漢字\nñ\n"]}
    written = yaml_of(value)
    assert hidden not in written
    assert "é" in written
    assert "  漢字\n" in written, "what can be read stands as it is"
    assert parse_yaml(written.encode(), "it.yaml") == value
    assert json.loads(escaped(json.dumps(value, ensure_ascii=False))) == value


@pytest.mark.parametrize("text", ["1e5", "true", "null", "", "~", "02134", "yes", "12:30", "a: b", "- a", "a\nb\n"])
def test_what_could_be_taken_for_something_else_is_text(text: str) -> None:
    assert parse_yaml(yaml_of({text: [text]}).encode(), "it.yaml") == {text: [text]}


def test_texts_of_several_lines_can_be_read_by_people() -> None:
    assert yaml_of({"file": "one\ntwo\n"}) == "file: |\n  one\n  two\n"


def test_a_number_that_no_float_holds_is_refused_by_line() -> None:
    with pytest.raises(BadTask, match="out of range"):
        parse_yaml(b"big: 1" + b"0" * 400, "it.yaml")
