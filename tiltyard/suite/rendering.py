"""Jinja2 in task files: ``{{ … }}`` in any string, filled in from the variant's ``vars``.

The language is cut down to what data needs: expressions, ``if`` and a few filters. There are no calls, loops or
assignments, so that a task file can neither reach the host nor run for long.
"""

import graphlib
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, cast

from jinja2 import StrictUndefined, TemplateError, TemplateSyntaxError, meta, nodes
from jinja2.exceptions import SecurityError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from schemas.base import JsonObject, JsonValue, canonical
from tiltyard.errors import BadTask

MAX_RENDERED_BYTES = 1024 * 1024
"""Size limit of one rendered value and of one rendered variant."""

MEND_JINJA = "write it as {{ NAME }}; braces that mean themselves stand in a file beside the task file"

FILTERS = (
    *("lower", "upper", "title", "capitalize", "trim", "string", "int", "float", "round", "abs"),
    *("length", "first", "last", "join", "tojson"),
)
REFUSED = (
    *(nodes.For, nodes.Macro, nodes.CallBlock, nodes.Call, nodes.Assign, nodes.AssignBlock, nodes.FilterBlock),
    *(nodes.Block, nodes.Extends, nodes.Include, nodes.Import, nodes.FromImport, nodes.With, nodes.Pow),
)


class _Environment(ImmutableSandboxedEnvironment):
    """Arithmetic is for numbers: a repeated or formatted string could be of any size. ``a.b`` is a member of a
    mapping and never a method, so that ``order.items`` means what it says."""

    intercepted_binops = frozenset({"*", "%"})

    def getattr(self, obj: Any, attribute: str) -> Any:
        if isinstance(obj, dict) and attribute in obj:
            return obj[attribute]
        return self.undefined(obj=obj, name=attribute)

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        if not (isinstance(left, int | float) and isinstance(right, int | float)):
            raise SecurityError(f"{operator} works on numbers only")
        return super().call_binop(context, operator, left, right)


def _environment() -> _Environment:
    environment = _Environment(undefined=StrictUndefined, autoescape=False, keep_trailing_newline=True)
    environment.globals.clear()
    environment.filters = {name: environment.filters[name] for name in FILTERS}
    return environment


_JINJA = _environment()


def render_what_can_be(
    value: JsonValue, variables: Mapping[str, JsonValue], problems: list[BadTask], where: str = ""
) -> JsonValue:
    """``value`` with every string rendered; a string that is exactly one ``{{ … }}`` keeps the value's type.

    A string that cannot be rendered becomes null, and why is added to ``problems``: a ``BadTask`` whose field is
    the dotted path below ``where``.
    """
    if isinstance(value, dict):
        return {
            str(render_what_can_be(key, variables, problems, where)): render_what_can_be(
                item, variables, problems, f"{where}.{key}".lstrip(".")
            )
            for key, item in value.items()
        }
    if isinstance(value, list):
        items = enumerate(value)
        return [render_what_can_be(item, variables, problems, f"{where}.{index}") for index, item in items]
    if not isinstance(value, str) or "{" not in value:
        return value
    try:
        return _rendered_string(value, variables, where)
    except BadTask as error:
        problems.append(error)
        return None


def _rendered_string(value: str, variables: Mapping[str, JsonValue], where: str) -> JsonValue:
    try:
        rendered = _rendered(value, variables)
        size = len(canonical(rendered))
    except BadTask as error:
        raise BadTask(error.message, field=where, fix=error.fix) from None
    except TemplateSyntaxError as error:
        raise BadTask(f"bad Jinja: {error.message}", field=where, fix=MEND_JINJA) from None
    except (TemplateError, ArithmeticError, TypeError, ValueError, LookupError, RecursionError) as error:
        raise BadTask(f"cannot be rendered: {error}", field=where, fix=f"known vars: {_list(variables)}") from None
    if size > MAX_RENDERED_BYTES:
        what = f"is over {MAX_RENDERED_BYTES // 1024} KiB when rendered"
        raise BadTask(what, field=where, fix="make it shorter, or put it in a file beside the task file")
    return rendered


def render_vars(variables: JsonObject, problems: list[BadTask]) -> JsonObject:
    """The variables themselves, which may use one another in any order.

    What cannot be rendered is added to ``problems``, but for variables that only suffer from another's. Raises
    ``BadTask`` when there is no order to render them in.
    """
    needs = {name: _names_in(value, f"vars.{name}") & variables.keys() for name, value in variables.items()}
    try:
        order = list(graphlib.TopologicalSorter(needs).static_order())
    except graphlib.CycleError as error:
        circle = " → ".join(error.args[1])
        fix = "give one of them a value of its own"
        raise BadTask(f"use one another in a circle: {circle}", field="vars", fix=fix) from None
    done: JsonObject = {}
    for name in order:
        if needs[name] <= done.keys():
            found: list[BadTask] = []
            rendered = render_what_can_be(variables[name], done, found, f"vars.{name}")
            if found:
                problems += found
            else:
                done[name] = rendered
    return done


def _rendered(text: str, variables: Mapping[str, JsonValue]) -> JsonValue:
    needed, fill = _compiled(text)
    unknown = sorted(needed - variables.keys())
    if unknown:
        raise BadTask(f"unknown variable {unknown[0]!r}", fix=f"known vars: {_list(variables)}")
    value = fill(**variables)
    if isinstance(value, StrictUndefined):
        str(value)  # raises, saying which member is missing
    return cast(JsonValue, list(value) if isinstance(value, tuple) else value)


@lru_cache(maxsize=4096)
def _compiled(text: str) -> tuple[frozenset[str], Callable[..., object]]:
    """The variables that a text needs, and what fills it in. Variants share most texts, so it is kept."""
    tree = _JINJA.parse(text)
    refused = next(tree.find_all(REFUSED), None)
    if refused is not None:
        what = type(refused).__name__.lower()
        raise BadTask(f"Jinja's {what!r} is not used in task files", fix="use expressions, if, and plain values")
    needed = frozenset(meta.find_undeclared_variables(tree))
    inner = _only_expression(tree, text)
    if inner is None:
        return needed, _JINJA.from_string(text).render
    return needed, _JINJA.compile_expression(inner, undefined_to_none=False)


def _only_expression(tree: nodes.Template, text: str) -> str | None:
    """The source of the expression when the text is exactly one."""
    if len(tree.body) != 1 or not isinstance(tree.body[0], nodes.Output) or len(tree.body[0].nodes) != 1:
        return None
    stripped = text.strip()
    if isinstance(tree.body[0].nodes[0], nodes.TemplateData) or not (
        stripped.startswith("{{") and stripped.endswith("}}")
    ):
        return None
    return stripped[2:-2].strip("-+")


def _names_in(value: JsonValue, where: str) -> set[str]:
    if isinstance(value, dict):
        value = [*value.keys(), *value.values()]
    if isinstance(value, list):
        return set().union(*(_names_in(item, where) for item in value))
    if not isinstance(value, str) or "{" not in value:
        return set()
    try:
        return set(_compiled(value)[0])
    except BadTask as error:
        raise BadTask(error.message, field=where, fix=error.fix) from None
    except (TemplateError, RecursionError) as error:
        raise BadTask(f"bad Jinja: {error}", field=where, fix=MEND_JINJA) from None


def _list(names: Mapping[str, JsonValue]) -> str:
    return ", ".join(sorted(names)) or "none"
