"""Pydantic's errors, told as errors of a task file: field path, what is wrong, how to mend it."""

import difflib
import re
from collections.abc import Iterable, Sequence
from functools import cache

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from schemas.task import Task
from tiltyard.errors import BadTask
from tiltyard.suite.remedies import KEY, remedy, said

_PLACE = re.compile(r"([a-z_]+(?:\.[^\s:]+)*): (.+)", re.DOTALL)
"""How a check of our own that sees several fields begins its message: with the one that is wrong."""


def explain(error: ValidationError, unknown: Sequence[str] = ()) -> tuple[BadTask, ...]:
    """Each error as a ``BadTask`` whose field is the dotted path; one within a value explains one of the whole.

    Values at the paths ``unknown`` have problems of their own: what was checked together with them is left out.
    """
    found = error.errors(include_url=False)
    inner = {one["loc"][:depth] for one in found for depth in range(len(one["loc"]))}
    outer = (one for one in found if one["loc"] not in inner)
    return tuple(_told(one) for one in outer if not any(related(field_path(one), path) for path in unknown))


def _told(details: ErrorDetails) -> BadTask:
    path, message = field_path(details), said(details)
    if details["type"] == "value_error" and (placed := _PLACE.fullmatch(message)):
        path, message = ".".join(filter(None, (path, placed[1]))), placed[2]
    return BadTask(message, field=path, fix=_fix(details))


def first_of(problems: Sequence[BadTask]) -> BadTask:
    """The first problem; the others are counted in its message."""
    first, more = problems[0], len(problems) - 1
    return BadTask(first.message + (f" (and {more} more)" if more else ""), field=first.field, fix=first.fix)


def related(path: str, other: str) -> bool:
    """Whether one of two dotted paths lies within the other."""
    one, two = path.split(".") if path else [], other.split(".") if other else []
    shared = min(len(one), len(two))
    return one[:shared] == two[:shared]


def field_path(details: ErrorDetails) -> str:
    """The dotted path of an error, as the file spells it: without the tags of unions and of keys."""
    loc = details["loc"]
    kept = [
        str(part)
        for index, part in enumerate(loc)
        if part != KEY and not (index >= 2 and loc[index - 2] == "contracts" and isinstance(loc[index - 1], int))
    ]
    return ".".join(kept)


def joined(*parts: str) -> str:
    """File, variant and field path in one string, for ``BadInput.field``."""
    return ": ".join(part for part in parts if part)


def nearest(name: str, known: Iterable[str]) -> str:
    """A hint with the names that are closest, or with all of them."""
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=3)
    return f"did you mean {' or '.join(close)}?" if close else f"known: {', '.join(names) or 'none'}"


def _fix(details: ErrorDetails) -> str:
    if details["type"] == "extra_forbidden":
        close = difflib.get_close_matches(str(details["loc"][-1]), _field_names(), n=1)
        if close:
            return f"did you mean {close[0]}?"
    return remedy(details)


@cache
def _field_names() -> tuple[str, ...]:
    """Every field name that can stand in a task file."""
    schema = Task.model_json_schema()
    models = [schema, *schema["$defs"].values()]
    return tuple(sorted({name for model in models for name in model.get("properties", ())}))
