"""How to mend what pydantic finds wrong with a value: a few words for each kind of error in a task file."""

import re
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from types import MappingProxyType

from pydantic_core import ErrorDetails

KEY = "[key]"
"""How pydantic's places end where a mapping's key is wrong and not its value."""

NAMES: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        r"^[A-Za-z_][A-Za-z0-9_]*$": ("letters, digits and _, with no digit first", "such as LANG"),
        r"^[a-z][a-z0-9-]{0,30}$": (
            "up to 31 lower-case letters, digits and -, with a letter first",
            "such as desk",
        ),
        r"^[a-z0-9][a-z0-9-]*(/[a-z0-9][a-z0-9._-]*){2}$": (
            "WORLD/FAMILY/VARIANT in lower-case letters, digits, - and (not in WORLD) . and _",
            "rename the variant, or the file",
        ),
    }
)
"""Patterns of names: what a name is made of, and how to mend one."""

SHAPES: Mapping[str, str] = MappingProxyType(
    {
        "tuple_type": "a list",
        "dict_type": "a mapping",
        "model_type": "a mapping",
        "model_attributes_type": "a mapping",
    }
)
"""What a value must be, in the words of a task file and not of Python, by pydantic's error type."""

AMOUNT = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]+)\s*", re.IGNORECASE)
UNITS: Mapping[str, tuple[str, Mapping[str, float]]] = MappingProxyType(
    {
        "_bytes": ("bytes", {"b": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}),
        "_s": ("seconds", {"s": 1, "m": 60, "h": 3600, "d": 86_400}),
    }
)
"""By the end of a field's name: its unit, and what the first letter of others is of it."""


def remedy(error: ErrorDetails) -> str:
    """What to do; empty for the errors of our own checks, whose messages say it."""
    found = REMEDIES.get(error["type"], "")
    return found if isinstance(found, str) else found(error)


def said(error: ErrorDetails) -> str:
    """What is wrong, without the patterns that nobody reads."""
    if error["type"] == "string_pattern_mismatch":
        made_of, _ = NAMES.get(error["ctx"]["pattern"], (f"as {error['ctx']['pattern']} has it", ""))
        return f"{'the name' if error['loc'][-1] == KEY else 'it'} must be {made_of}"
    if error["type"] in ("too_short", "too_long"):
        return f"it has {'too few' if error['type'] == 'too_short' else 'too many'} entries"
    if error["type"] in SHAPES:
        return f"it must be {SHAPES[error['type']]}"
    return error["msg"].removeprefix("Value error, ")


def _number(kind: str) -> Callable[[ErrorDetails], str]:
    def of(error: ErrorDetails) -> str:
        name = str(error["loc"][-1]) if error["loc"] else ""
        unit, parts = next((UNITS[end] for end in UNITS if name.endswith(end)), ("", {}))
        amount = AMOUNT.fullmatch(str(error["input"]))
        if amount and (part := parts.get(amount[2][0].lower())):
            return f"write it in {unit}: {float(amount[1]) * part:.12g}"
        return f"write {kind}" + (f" of {unit}" if unit else "")

    return of


def _of_several(error: ErrorDetails) -> str:
    """What stands for one of a few words."""
    context = error["ctx"]
    listed = re.split(r", | or ", str(context.get("expected") or context.get("expected_tags")))
    known = [word.strip("'") for word in listed]
    close = get_close_matches(str(context.get("tag", error["input"])), known, n=1)
    return f"did you mean {close[0]}?" if close else f"write {' or '.join(known)}"


def _bound(words: str, name: str, unit: str = "") -> Callable[[ErrorDetails], str]:
    return lambda error: f"{words} {error['ctx'][name]}{unit}"


def _name(error: ErrorDetails) -> str:
    _, mend = NAMES.get(error["ctx"]["pattern"], ("", "write it so"))
    return mend


REMEDIES: Mapping[str, str | Callable[[ErrorDetails], str]] = MappingProxyType(
    {
        "missing": "add it",
        "extra_forbidden": "remove it, or correct its name",
        "union_tag_not_found": "add kind:",
        "union_tag_invalid": _of_several,
        "literal_error": _of_several,
        "string_type": "put it in quotes",
        "tuple_type": "write it as a list",
        "dict_type": "write it as a mapping",
        "model_type": "write it as a mapping",
        "model_attributes_type": "write it as a mapping",
        "bool_type": "write true or false",
        "bool_parsing": "write true or false",
        "int_type": _number("a whole number"),
        "int_parsing": _number("a whole number"),
        "int_parsing_size": _number("a smaller whole number"),
        "int_from_float": _number("a whole number"),
        "float_type": _number("a number"),
        "float_parsing": _number("a number"),
        "finite_number": _number("a number"),
        "greater_than": _bound("write more than", "gt"),
        "greater_than_equal": _bound("write at least", "ge"),
        "less_than": _bound("write less than", "lt"),
        "less_than_equal": _bound("write at most", "le"),
        "string_too_short": _bound("write at least", "min_length", " characters"),
        "string_too_long": _bound("write at most", "max_length", " characters"),
        "too_short": _bound("give at least", "min_length"),
        "too_long": _bound("give at most", "max_length"),
        "string_pattern_mismatch": _name,
        "string_unicode": "write whole characters",
        "invalid_key": "write the key as text",
        "recursion_loop": "make it less deep",
        "none_required": "leave it out",
    }
)
"""How to mend an error, by pydantic's error type."""
