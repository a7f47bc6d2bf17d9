"""Writing YAML that reads back as what it was, in the dialect of task files (``tiltyard.suite.reading``)."""

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
    """The mapping as YAML, its keys in their order."""
    return str(yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=WIDTH))
