"""Reading task files: YAML in a dialect without surprises, and JSON.

Plain scalars are read as JSON reads them: ``yes``, ``02134``, ``12:30`` and ``2024-05-01`` are strings. Duplicate
keys, anchors, tags and anything that JSON cannot hold are refused, each with its line and column.
"""

import json
import math
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import yaml

from schemas.base import JsonObject, JsonValue
from tiltyard.errors import BadTask
from tiltyard.regular_files import open_regular
from tiltyard.single_keys import once

MAX_FILE_BYTES = 512 * 1024
"""Size limit of one task file that a person writes."""

MAX_JSON_BYTES = 64 * 1024 * 1024
"""Size limit of one task file that a program writes."""

MEND_YAML = "mend the YAML there: close what is open, and put a text in quotes that has ': ' or begins with a sign"


class Advice(NamedTuple):
    """How a file is mended that holds no mapping, and one that is too large."""

    mapping: str
    smaller: str


TASK_FILE = Advice("give it family, world and variants", "split it into several families")


class _Loader(yaml.SafeLoader):
    """The safe loader less YAML 1.1's guesses, aliases and duplicate keys."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 - the type stubs make it an instance's
    yaml_constructors: ClassVar[dict[str | None, Any]] = {}

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        event = self.peek_event()  # type: ignore[no-untyped-call] # PyYAML's stubs leave the parser untyped
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise yaml.MarkedYAMLError(
                problem="anchors and aliases are not used in task files",
                problem_mark=event.start_mark,
                note="put the shared part in vars",
            )
        return super().compose_node(parent, index)

    def mapping(self, node: yaml.MappingNode) -> JsonObject:
        made: JsonObject = {}
        for key_node, value_node in node.value:
            key = key_node.value if isinstance(key_node, yaml.ScalarNode) else None
            if key is None or key in made:
                what = "a key must be plain text" if key is None else f"the key {key!r} stands here twice"
                fix = "write it as one word, or put it in quotes" if key is None else "remove one of them"
                raise yaml.MarkedYAMLError(problem=what, problem_mark=key_node.start_mark, note=fix)
            made[key] = self.construct_object(value_node, deep=True)
        return made

    def sequence(self, node: yaml.SequenceNode) -> list[JsonValue]:
        return [self.construct_object(item, deep=True) for item in node.value]

    def number(self, node: yaml.ScalarNode) -> int | float:
        try:
            value = float(node.value) if re.search("[.eE]", node.value) else int(node.value)
            finite = math.isfinite(value)
        except (ValueError, OverflowError):
            finite = False
        if not finite:
            fix = "write a smaller one, or put it in quotes"
            raise yaml.MarkedYAMLError(problem="the number is out of range", problem_mark=node.start_mark, note=fix)
        return value

    def refused(self, node: yaml.Node) -> None:
        raise yaml.MarkedYAMLError(
            problem=f"the tag {node.tag!r} is not allowed",
            problem_mark=node.start_mark,
            note="write plain text, a number, a list or a mapping",
        )


TAG = "tag:yaml.org,2002:"
_SCALARS = (
    ("null", r"(?:null|~|)$", "n~\0"),
    ("bool", r"(?:true|false)$", "tf"),
    ("number", r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?$", "-0123456789"),
)
for _name, _pattern, _first in _SCALARS:
    _firsts = ["" if one == "\0" else one for one in _first]
    _Loader.add_implicit_resolver(TAG + _name, re.compile(_pattern), _firsts)
_Loader.add_constructor(TAG + "null", lambda loader, node: None)
_Loader.add_constructor(TAG + "bool", lambda loader, node: node.value == "true")
_Loader.add_constructor(TAG + "number", _Loader.number)
_Loader.add_constructor(TAG + "str", lambda loader, node: node.value)
_Loader.add_constructor(TAG + "seq", _Loader.sequence)
_Loader.add_constructor(TAG + "map", _Loader.mapping)
_Loader.add_constructor(None, _Loader.refused)
RESOLVERS = _Loader.yaml_implicit_resolvers
"""What a plain scalar may be beside a text; for whoever writes what is read here."""


def read_yaml(path: Path, name: str, advice: Advice) -> JsonObject:
    """The mapping that a file holds. Raises ``BadTask`` with the file's ``name``, line and column."""
    return parse_yaml(_bytes_of(path, name, MAX_FILE_BYTES, advice), name, advice)


def read_json(path: Path, name: str, advice: Advice) -> JsonObject:
    """The object that a file holds. Raises ``BadTask`` with the file's ``name``; no key may stand there twice."""
    try:
        value = json.loads(
            _bytes_of(path, name, MAX_JSON_BYTES, advice), object_pairs_hook=once, parse_constant=_no_number
        )
    except (ValueError, RecursionError) as error:
        raise BadTask(f"is not JSON: {error}", field=name, fix="have it made again") from None
    if not isinstance(value, dict):
        raise BadTask("is not an object", field=name, fix=advice.mapping)
    _check_text(value, name)
    return value


READERS: Mapping[str, Callable[[Path, str, Advice], JsonObject]] = {".yaml": read_yaml, ".json": read_json}
"""What reads a file, by its suffix."""


def _bytes_of(path: Path, name: str, limit: int, advice: Advice) -> bytes:
    try:
        with open_regular(path) as file:
            data = file.read(limit + 1)
    except OSError as error:
        raise BadTask(
            f"cannot be read: {error.strerror}", field=name, fix="make it a file that you can read"
        ) from error
    if len(data) > limit:
        raise BadTask(f"is over {limit // 1024} KiB", field=name, fix=advice.smaller)
    return data


def _check_text(value: JsonObject, name: str) -> None:
    """Characters are whole: nothing else can be checked, kept or sent."""
    try:
        text = json.dumps(value, ensure_ascii=False)
    except RecursionError:
        raise BadTask("is nested too deeply", field=name, fix="make it less deep") from None
    if half := re.search("[\ud800-\udfff]", text):
        what = f"holds half a character, \\u{ord(half[0]):x}"
        raise BadTask(what, field=name, fix="write the whole one")


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is no JSON number")


def parse_yaml(data: bytes, name: str, advice: Advice = TASK_FILE) -> JsonObject:
    """The mapping that YAML bytes hold; ``name`` is the file's, for errors."""
    try:
        value = yaml.load(data, Loader=_Loader)  # noqa: S506 - _Loader is a safe loader made stricter
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{name}: line {mark.line + 1}, column {mark.column + 1}" if mark else name
        raise BadTask(error.problem or "is not YAML", field=where, fix=error.note or MEND_YAML) from None
    except (yaml.YAMLError, ValueError) as error:
        raise BadTask(
            f"is not YAML: {str(error).splitlines()[0]}", field=name, fix="save it as UTF-8 text"
        ) from None
    except RecursionError:
        raise BadTask("is nested too deeply", field=name, fix="make it less deep") from None
    if not isinstance(value, dict):
        raise BadTask("is not a mapping", field=name, fix=advice.mapping)
    _check_text(value, name)
    return value
