"""Parts of a command's output that differ between equal runs (I7)."""

import re
from collections.abc import Mapping, Sequence

from schemas.base import JsonValue
from schemas.sandbox import Normaliser

_NUMBER = r"\d{1,20}(?:\.\d{1,20})?(?:e[+-]?\d{1,3})?"
_UNIT = r"(?:seconds?|secs?|minutes?|mins?|hours?|[nuµμm]?s|h)"

PATTERNS: Mapping[Normaliser, tuple[re.Pattern[str], str]] = {
    "durations": (
        re.compile(rf"\b(?:\d{{1,4}}m{_NUMBER}s|\d{{1,4}}:\d\d:\d\d(?:\.\d{{1,9}})?|{_NUMBER} ?{_UNIT})\b"),
        "<duration>",
    ),
    "addresses": (re.compile(r"\b0x[0-9a-fA-F]{4,16}\b"), "<address>"),
    "process_ids": (re.compile(r"\b((?:p|P)(?:id|rocess)|PID)([ =:#]{1,3})\d{1,10}\b"), r"\1\2<pid>"),
    "temporary_names": (re.compile(r"(/tmp/)[A-Za-z0-9_.-]{1,255}"), r"\1<name>"),
    # The user of a Docker sandbox is one of its own, of these (infra.sandboxes.users).
    "users": (re.compile(r"\b19\d{8}\b"), "<user>"),
}
"""Every repetition has a bound, so that a text of any size takes time in proportion to it."""


def normalised(text: str, names: Sequence[Normaliser]) -> str:
    """``text`` with the parts that ``names`` say replaced by a word for them."""
    for name in names:
        pattern, word = PATTERNS[name]
        text = pattern.sub(word, text)
    return text


def normalised_value(value: JsonValue, names: Sequence[Normaliser]) -> JsonValue:
    """A JSON value without the parts of its texts that differ between equal runs."""
    match value:
        case str():
            return normalised(value, names)
        case list():
            return [normalised_value(item, names) for item in value]
        case dict():
            return {key: normalised_value(item, names) for key, item in value.items()}
        case _:
            return value
