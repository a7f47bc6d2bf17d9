"""Files of cases for verifying a world: one JSON object a line (docs/worlds/retail.md)."""

from collections.abc import Container
from pathlib import Path

from pydantic import ValidationError

from schemas.verify import Case
from tiltyard.errors import BadInput

FORMAT = "a case has id, steps (tool, arguments, ok, result) and changed"


def read_cases(path: Path, tools: Container[str]) -> tuple[Case, ...]:
    """The cases of a file; ``tools`` are those that a step may call.

    Raises ``BadInput`` naming line and field: a case that passes because it was misspelt shows nothing.
    """
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise BadInput(
            f"cannot read {path}: {error.strerror}", field="cases", fix="name a file of cases"
        ) from error
    cases = tuple(_case(path, number, line) for number, line in enumerate(lines, 1) if line.strip())
    if not cases:
        raise BadInput(f"{path} holds no cases", field="cases", fix="put one JSON object on each line")
    for case in cases:
        for index, step in enumerate(case.steps):
            if step.tool not in tools:
                field = _place(path, case.line, f"steps.{index}.tool")
                raise BadInput(f"the world has no tool {step.tool!r}", field=field, fix="correct its name")
    return cases


def _case(path: Path, number: int, line: bytes) -> Case:
    try:
        return Case.model_validate_json(line).model_copy(update={"line": number})
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(str(part) for part in first["loc"])
        message = first["msg"].removeprefix("Value error, ")
        raise BadInput(message, field=_place(path, number, field), fix=FORMAT) from error


def _place(path: Path, line: int, field: str) -> str:
    return f"{path.name} line {line}: {field}".removesuffix(": ")
