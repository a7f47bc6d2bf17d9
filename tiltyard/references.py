"""Run-time expressions of reference solutions: ``${steps.order.replacement_id}``.

A task file is rendered twice. Jinja (``{{ … }}``) is filled in when the file is loaded, from the variant's
``vars``. What only a run can know is written ``${steps.NAME.PATH}`` and filled in when a step is played, from
the contents that earlier steps were shown. The reference policy and the checks of a suite both use ``resolve``:

    resolve(step.arguments, {"order": {"replacement_id": "R-1001"}})

PATH is dotted; a whole number is a position in a list. A string that is exactly one expression keeps the type
of the value; inside a longer string the value is put in as text. ``$${`` is a plain ``${``.
"""

import re
from collections.abc import Iterator, Mapping

from schemas.base import JsonValue, canonical
from tiltyard.errors import BadInput

EXPRESSION = re.compile(r"(?<!\$)\$\{\s*([^{}]*?)\s*\}")


def resolve(value: JsonValue, steps: Mapping[str, JsonValue]) -> JsonValue:
    """``value`` with every expression filled in. Raises ``BadInput`` naming the expression that has no value."""
    if isinstance(value, dict):
        return {key: resolve(item, steps) for key, item in value.items()}
    if isinstance(value, list):
        return [resolve(item, steps) for item in value]
    if not isinstance(value, str):
        return value
    whole = EXPRESSION.fullmatch(value)
    if whole:
        return _look_up(whole[1], steps)
    return EXPRESSION.sub(lambda found: _text(_look_up(found[1], steps)), value).replace("$${", "${")


def expressions(value: JsonValue) -> Iterator[str]:
    """The paths of all expressions in a value, such as ``steps.order.replacement_id``."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from expressions(item)
    elif isinstance(value, str):
        yield from (found[1] for found in EXPRESSION.finditer(value))


def step_of(path: str) -> str:
    """The name of the step that an expression reads. Raises ``BadInput`` when it is not ``steps.NAME…``."""
    root, _, rest = path.partition(".")
    name = rest.partition(".")[0]
    if root != "steps" or not name:
        raise BadInput("is not an expression over steps", field=f"${{{path}}}", fix="write ${steps.NAME.PATH}")
    return name


def _look_up(path: str, steps: Mapping[str, JsonValue]) -> JsonValue:
    name = step_of(path)
    if name not in steps:
        known = ", ".join(sorted(steps)) or "none"
        raise BadInput(f"no earlier step is named {name!r}", field=f"${{{path}}}", fix=f"steps so far: {known}")
    value = steps[name]
    for part in path.split(".")[2:]:
        value = _member(value, part, path)
    return value


def _member(value: JsonValue, part: str, path: str) -> JsonValue:
    if isinstance(value, dict) and part in value:
        return value[part]
    if isinstance(value, list) and re.fullmatch("[0-9]{1,9}", part) and int(part) < len(value):
        return value[int(part)]
    raise BadInput(f"there is no {part!r} in what the step was shown", field=f"${{{path}}}")


def _text(value: JsonValue) -> str:
    return value if isinstance(value, str) else canonical(value).decode()
