"""A task as a person reads it: YAML, without what is as it is anyway."""

from typing import Any

import yaml

from schemas.base import Model
from schemas.task import Task


class _Dumper(yaml.SafeDumper):
    """Text of several lines is written as it is."""

    def text(self, value: str) -> yaml.Node:
        return self.represent_scalar("tag:yaml.org,2002:str", value, style="|" if "\n" in value else None)


_Dumper.add_representer(str, _Dumper.text)


def _graded_by(model: Model) -> dict[str, Any]:
    given = model.model_dump(mode="json", exclude_defaults=True)
    every = model.model_dump(mode="json")
    return {
        name: value for name, value in every.items() if name in given or isinstance(value, bool | int | float)
    } | given


def written(task: Task) -> str:
    """The task: limits, weights and all numbers that it is graded by; other fields only where they are set."""
    fields = task.model_dump(mode="json", exclude_defaults=True)
    fields |= {
        "contracts": [{"kind": one.kind} | _graded_by(one) for one in task.contracts],
        "process": [_graded_by(one) for one in task.process],
        "limits": task.limits.model_dump(mode="json", exclude_none=True),
        "weights": task.weights.model_dump(mode="json"),
    }
    ordered = {name: fields[name] for name in Task.model_fields if fields.get(name) not in (None, [])}
    return str(yaml.dump(ordered, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)).rstrip()
