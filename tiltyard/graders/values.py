"""Comparing JSON values, and finding a fact in what was said or shown."""

import re
from collections.abc import Collection, Iterator, Mapping

from schemas.base import JsonValue, canonical
from schemas.contract import OPERATION_OF

MISSING = object()
"""What ``member`` gives for a path that is not there; ``None`` is a value."""


def same(a: object, b: object) -> bool:
    """Equal as JSON: 1 = 1.0, but a boolean is no number."""
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    return type(a) is not type(MISSING) and a == b


def fits(expected: JsonValue, actual: object, operation_ids: Mapping[str, Collection[str]]) -> bool:
    """Equal, or an operation id of the tool that the stand-in ``{operation_of: TOOL}`` names."""
    if isinstance(expected, dict) and expected.keys() == {OPERATION_OF}:
        return isinstance(actual, str) and actual in operation_ids.get(str(expected[OPERATION_OF]), ())
    return same(expected, actual)


def member(value: object, path: str) -> object:
    """The value at a dotted path (a whole number is a position in a list), or ``MISSING``."""
    for part in path.split("."):
        if isinstance(value, dict) and part in value:
            value = value[part]
        elif isinstance(value, list) and re.fullmatch("[0-9]{1,9}", part) and int(part) < len(value):
            value = value[int(part)]
        else:
            return MISSING
    return value


def differing(before: JsonValue, after: JsonValue, path: str = "") -> Iterator[str]:
    """Dotted paths of the smallest parts that differ; a list of another length differs as a whole."""
    pairs: list[tuple[str, object, object]]
    if isinstance(before, dict) and isinstance(after, dict):
        keys = sorted(before.keys() | after.keys())
        pairs = [(key, before.get(key, MISSING), after.get(key, MISSING)) for key in keys]
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        pairs = [(str(index), *pair) for index, pair in enumerate(zip(before, after, strict=True))]
    else:
        if not same(before, after):
            yield path
        return
    for part, old, new in pairs:
        if not same(old, new):
            yield from differing(old, new, f"{path}.{part}" if path else part)  # type: ignore[arg-type]


def brief(value: object, limit: int = 120) -> str:
    """A value's canonical JSON, cut for a sentence."""
    if value is MISSING:
        return "absent"
    text = canonical(value).decode("utf-8", "replace")
    return text if len(text) <= limit else text[: limit - 1] + "…"


def leaves(value: JsonValue, keys: bool = False) -> Iterator[str]:
    """The texts and numbers in a value, as text; with ``keys`` those of its mappings too."""
    if isinstance(value, dict):
        if keys:
            yield from value
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from leaves(item, keys)
    elif isinstance(value, str):
        yield value
    elif value is not None:
        yield canonical(value).decode()


_TOKEN = re.compile(r"(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+)(?:\.[0-9]+)?(?![^\W_])|[^\W_]+")


def tokens(text: str) -> tuple[str, ...]:
    """Words and numbers: case, separators and ``$`` do not matter, and 481.50 is 481.5."""
    return tuple(_plain_number(found) for found in _TOKEN.findall(text.casefold()))


def _plain_number(token: str) -> str:
    if not re.fullmatch(r"[0-9,]+(\.[0-9]+)?", token):
        return token
    whole, _, part = token.replace(",", "").partition(".")
    part = part.rstrip("0")
    return (whole.lstrip("0") or "0") + (f".{part}" if part else "")


def says(texts: Iterator[str], fact: str) -> bool:
    """Whether one of the texts has the fact in it, as whole words or numbers."""
    wanted = tokens(fact)
    if not wanted:
        plain = fact.strip().casefold()
        return bool(plain) and any(plain in text.casefold() for text in texts)
    return any(_contains(tokens(text), wanted) for text in texts)


def _contains(found: tuple[str, ...], wanted: tuple[str, ...]) -> bool:
    size = len(wanted)
    return any(found[at : at + size] == wanted for at in range(len(found) - size + 1))


def shown(value: JsonValue, contents: Collection[JsonValue]) -> bool:
    """Whether every text and number of ``value`` stands in one of the contents.

    A number may be written in another way there. A text must stand there as it is, and not as part of a longer
    word or id: ``R-1`` is not shown by ``R-10`` nor by ``R-1-b``.
    """
    return all(any(_stands_in(leaf, leaves(content, keys=True)) for content in contents) for leaf in leaves(value))


def _stands_in(leaf: str, texts: Iterator[str]) -> bool:
    if re.fullmatch(r"[$-]*[0-9][0-9,.]*", leaf):
        return says(texts, leaf)
    whole = re.compile(rf"(?<![\w-]){re.escape(leaf)}(?![\w-])", re.IGNORECASE)
    return bool(leaf) and any(whole.search(text) for text in texts)
