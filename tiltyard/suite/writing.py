"""Writing YAML that reads back as what it was, in the dialect of task files (``tiltyard.suite.reading``)."""

import json
from typing import Any

import yaml

from schemas.base import JsonObject
from tiltyard.suite.reading import RESOLVERS, TAG

WIDTH = 110


class _Dumper(yaml.SafeDumper):
    """Quotes what the dialect would read as something else; texts of several lines stand as they are."""

    yaml_implicit_resolvers: dict[str, Any] = RESOLVERS

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def text(self, value: str) -> yaml.Node:
        return self.represent_scalar(f"{TAG}str", value, style=_style(value))

    def number(self, value: int | float) -> yaml.Node:
        return self.represent_scalar(f"{TAG}number", repr(value))


def _style(text: str) -> str | None:
    """How a text is written; where there is a choice, YAML's rules decide (``None``)."""
    if not text.replace("\n", "").isprintable():
        return '"'  # escaped: a line may end at more characters than the one that we mean
    return "|" if "\n" in text else None


_Dumper.add_representer(str, _Dumper.text)
_Dumper.add_representer(int, _Dumper.number)
_Dumper.add_representer(float, _Dumper.number)


def yaml_of(value: JsonObject) -> str:
    """The mapping as YAML, its keys in their order. Nothing in it is hidden, or reorders what is read."""
    return escaped(yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=WIDTH))


def escaped(text: str) -> str:
    """YAML of ours, or JSON, with an escape in the place of each character that is not seen, such as those that
    change the direction of writing. They stand in double quotes there, where an escape means the same."""
    if text.replace("\n", "").isprintable():
        return text
    return "".join(one if one == "\n" or one.isprintable() else json.dumps(one)[1:-1] for one in text)
