"""Arguments are read as their JSON schema says: nothing is converted, and whatever JSON can spell is taken."""

from typing import Annotated, Literal

import pytest
from pydantic import Field

from schemas.base import JsonObject, JsonValue
from schemas.world import Shown
from tiltyard.worlds.arguments import MAX_QUOTED, parse
from tiltyard.worlds.kit import Entity, State, tool


@tool(writes=True)
def book(
    state: State,
    weight: Annotated[float, Field(ge=0)] = 0,
    kind: Literal["small", "large"] = "small",
    numbers: tuple[int, ...] = (),
    urgent: bool = False,
) -> None:
    """Takes one argument of each type."""


class Parcel(Entity):
    kind: Literal["parcel"]


class Letter(Entity):
    kind: Literal["letter"]


@tool()
def send(state: State, thing: Annotated[Parcel | Letter, Field(discriminator="kind")]) -> None:
    """Takes one of two things."""


def test_an_error_repeats_no_more_than_a_little_of_what_was_sent() -> None:
    sent: tuple[JsonObject, ...] = (
        {"thing": {"kind": "x" * 100_000}},
        {"thing": {"kind": "letter", "x" * 100_000: 1}},
    )
    for arguments in sent:
        refused = parse(send, arguments)
        assert isinstance(refused, Shown)
        assert 50 < refused.message.count("x") <= MAX_QUOTED
        assert (refused.message.startswith("thing"), len(refused.message) < 500) == (True, True)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("weight", weight) for weight in (2, 2.5)),
        *(("kind", kind) for kind in ("small", "large")),
        ("numbers", [1, 2]),
        ("urgent", True),
        ("operation_id", "mine"),
        ("operation_id", None),
    ],
)
def test_what_the_schema_allows_is_taken(field: str, value: JsonValue) -> None:
    parsed = parse(book, {field: value})
    assert not isinstance(parsed, Shown)
    assert parsed.model_dump(mode="json")[field] == value


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("weight", weight) for weight in ("2", True, None)),
        *(("kind", kind) for kind in ("Small", 1)),
        *(("numbers", numbers) for numbers in ("12", ["1"], [1.5], {"0": 1})),
        *(("urgent", urgent) for urgent in (1, "true", "yes")),
        ("operation_id", 7),
    ],
)
def test_what_it_does_not_is_refused_naming_the_field(field: str, value: JsonValue) -> None:
    parsed = parse(book, {field: value})
    assert isinstance(parsed, Shown)
    assert (parsed.code, parsed.message.split(":")[0].split(".")[0]) == ("bad_arguments", field)
