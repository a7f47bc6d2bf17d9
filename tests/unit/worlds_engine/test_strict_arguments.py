"""Arguments are read as their JSON schema says: nothing is converted, and whatever JSON can spell is taken."""

from typing import Annotated, Literal

import pytest
from pydantic import Field

from schemas.base import JsonValue
from schemas.world import Shown
from tiltyard.worlds.arguments import parse
from tiltyard.worlds.kit import State, tool


@tool(writes=True)
def book(
    state: State,
    weight: Annotated[float, Field(ge=0)] = 0,
    kind: Literal["small", "large"] = "small",
    numbers: tuple[int, ...] = (),
    urgent: bool = False,
) -> None:
    """Takes one argument of each type."""


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
