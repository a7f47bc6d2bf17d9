"""JSON values as a person reads them: short ones in a line, texts of several lines as they are."""

import json
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from ops.cli.counting import counted
from ops.cli.folded import Line
from schemas.base import JsonValue

BLOCK = "| "
"""Before each line of a text that has several."""


class Cut(NamedTuple):
    """How much is shown of a value: characters of a line, and lines of a text."""

    characters: int
    lines: int


BRIEF = Cut(characters=200, lines=6)
WHOLE = Cut(characters=2**40, lines=2**40)


def in_json(value: JsonValue) -> str:
    """A value in one line."""
    return json.dumps(value, ensure_ascii=False)


def cut(text: str, to: Cut) -> str:
    """A text, and how much is left out of it."""
    more = len(text) - to.characters
    return text if more <= 0 else f"{text[: to.characters]}… ({counted(more, 'character')} more)"


def said_lines(how: str, text: str, indent: int, to: Cut) -> Iterator[Line]:
    """Plain words after ``how``."""
    if _is_block(text):
        yield from block(how.rstrip(": "), text, indent, to)
    else:
        yield Line(how + cut(text, to), indent)


def value_lines(mark: str, value: JsonValue, indent: int, to: Cut, name: str = "") -> Iterator[Line]:
    """A value after ``mark`` and ``name``; texts of several lines stand below it, each under its own name."""
    if isinstance(value, str) and _is_block(value):
        yield Line(name, indent, mark=mark)
        yield from block("", value, indent + 2, to)
        return
    blocks = _blocks(value)
    plain = {key: one for key, one in value.items() if key not in blocks} if isinstance(value, dict) else value
    yield Line(name + (cut(in_json(plain), to) if plain or not blocks else ""), indent, mark=mark)
    for below, text in blocks.items():
        yield from block(below, text, indent + 2, to)


def call_lines(tool: str, arguments: Mapping[str, JsonValue], after: str, indent: int, to: Cut) -> Iterator[Line]:
    """A call as one would write it; ``after`` stands behind it."""
    blocks = _blocks(dict(arguments))
    told = ", ".join(f"{name}={'(below)' if name in blocks else in_json(one)}" for name, one in arguments.items())
    yield Line(f"{tool}({cut(told, to)}){after}", indent, hang=4)
    for name, text in blocks.items():
        yield from block(name, text, indent + 4, to)


def block(name: str, text: str, indent: int, to: Cut) -> Iterator[Line]:
    """A text of several lines as it is: its head and its end, where it is long."""
    lines = text.splitlines()
    if name:
        yield Line(f"{name}:", indent)
    left_out = len(lines) - to.lines
    head = len(lines) if left_out <= 0 else (to.lines + 1) // 2
    yield from _barred(lines[:head], indent, to)
    if left_out > 0:
        yield Line(f"… ({left_out} lines more)", indent)
        yield from _barred(lines[head + left_out :], indent, to)


def _barred(lines: list[str], indent: int, to: Cut) -> Iterator[Line]:
    for line in lines:
        yield Line(cut(line.expandtabs(4), to), indent, mark=BLOCK)


def _blocks(value: JsonValue) -> dict[str, str]:
    """The texts of several lines among a mapping's values."""
    if not isinstance(value, dict):
        return {}
    return {key: one for key, one in value.items() if isinstance(one, str) and _is_block(one)}


def _is_block(text: str) -> bool:
    return "\n" in text
