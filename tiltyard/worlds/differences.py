"""Where two JSON values differ. Numbers are money here: equal when they are equal to the cent."""

import contextlib
import json
from collections.abc import Iterator
from decimal import Decimal
from typing import NamedTuple

from pydantic import JsonValue

SHOWN_CHARACTERS = 200
ABSENT = "nothing"
NO_CENTS = Decimal(10**15)
"""From here on a double has no cents to compare."""


class Difference(NamedTuple):
    """``where`` is a dotted path, empty for the whole value; the others are text for a person."""

    where: str
    expected: str
    got: str


def differences(expected: JsonValue, got: JsonValue, where: str = "") -> Iterator[Difference]:
    """Every place where ``got`` is not as ``expected``, the deepest path of each."""
    if isinstance(expected, dict) and isinstance(got, dict):
        for key in sorted(expected.keys() | got.keys()):
            path = f"{where}.{key}" if where else key
            if key in expected and key in got:
                yield from differences(expected[key], got[key], path)
            else:
                yield Difference(path, _shown_member(expected, key), _shown_member(got, key))
    elif isinstance(expected, list) and isinstance(got, list) and len(expected) == len(got):
        for index, pair in enumerate(zip(expected, got, strict=True)):
            yield from differences(*pair, f"{where}.{index}" if where else str(index))
    elif not _equal(expected, got):
        yield Difference(where, shown(expected), shown(got))


def result_differences(expected: JsonValue, got: JsonValue) -> Iterator[Difference]:
    """``differences`` of a tool's results: two texts that are both JSON are compared as what they say."""
    if isinstance(expected, str) and isinstance(got, str) and expected != got:
        with contextlib.suppress(ValueError, RecursionError):  # not JSON: they differ as texts
            expected, got = (json.loads(text, parse_constant=_no_number) for text in (expected, got))
    return differences(expected, got)


def shown(value: JsonValue) -> str:
    """A value as JSON text, cut when it is long."""
    text = json.dumps(value, ensure_ascii=False, sort_keys=True)
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}…"


def _shown_member(value: dict[str, JsonValue], key: str) -> str:
    return shown(value[key]) if key in value else ABSENT


def _equal(expected: JsonValue, got: JsonValue) -> bool:
    if _is_number(expected) and _is_number(got):
        return _cents(expected) == _cents(got)
    return type(expected) is type(got) and expected == got


def _is_number(value: JsonValue) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _cents(value: JsonValue) -> Decimal:
    exact = Decimal(str(value))
    return round(exact, 2) if abs(exact) < NO_CENTS else exact


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is not JSON")
