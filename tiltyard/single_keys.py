"""JSON in which no key stands twice. Of two, readers take the last: what the first says would be gone unseen."""

import json
from collections.abc import Sequence

from schemas.base import JsonObject, JsonValue


class KeyTwice(ValueError):
    """A key stands twice in one object."""


def once(pairs: Sequence[tuple[str, JsonValue]]) -> JsonObject:
    """The object of these pairs, as ``object_pairs_hook``. Raises ``KeyTwice`` naming the key."""
    made = dict(pairs)
    if len(made) < len(pairs):
        keys = [key for key, _ in pairs]
        raise KeyTwice(f"the key {next(key for key in keys if keys.count(key) > 1)!r} stands here twice")
    return made


def repeated(data: bytes) -> str:
    """What is wrong if a key of an object in ``data`` stands twice, else nothing: whatever is no JSON is for the
    reader to tell."""
    try:
        json.loads(data, object_pairs_hook=once, parse_int=str, parse_float=str)
    except KeyTwice as error:
        return str(error)
    except (ValueError, RecursionError):
        pass
    return ""
