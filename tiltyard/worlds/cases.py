"""Files of cases for verifying a world: one JSON object a line (docs/worlds/retail.md)."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from pydantic import ValidationError

from schemas.verify import Case, CaseStep
from tiltyard.errors import BadInput
from tiltyard.single_keys import repeated
from tiltyard.worlds.kit import Tool

FORMAT = "a case has id, steps (tool, arguments, ok, result) and changed"


def read_cases(path: Path, tools: Mapping[str, Tool]) -> tuple[Case, ...]:
    """The cases of a file; ``tools`` are those that a step may call.

    Raises ``BadInput`` naming line and field: a case that passes because it was misspelt, or that is counted
    twice, shows nothing.
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
    first_at: dict[str, int] = {}
    for case in cases:
        first = first_at.setdefault(case.id, case.line)
        if first != case.line:
            raise BadInput(
                f"{case.id!r} is also the id of line {first}",
                field=_place(path, case.line, "id"),
                fix="remove one of the cases, or rename it",
            )
        for index, step in enumerate(case.steps):
            for field, problem in _problems(step, tools):
                raise BadInput(problem, field=_place(path, case.line, f"steps.{index}.{field}"), fix=FORMAT)
    return cases


def _problems(step: CaseStep, tools: Mapping[str, Tool]) -> Iterator[tuple[str, str]]:
    if step.tool not in tools:
        yield "tool", f"the world has no tool {step.tool!r}"
    elif step.ok and not tools[step.tool].spec.writes and "result" not in step.model_fields_set:
        yield "result", "missing for a read that succeeds: it would not be compared"


def _case(path: Path, number: int, line: bytes) -> Case:
    if twice := repeated(line):
        raise BadInput(twice, field=_place(path, number, ""), fix=FORMAT)
    try:
        return Case.model_validate_json(line).model_copy(update={"line": number})
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(str(part) for part in first["loc"])
        raise BadInput(first["msg"], field=_place(path, number, field), fix=FORMAT) from error


def _place(path: Path, line: int, field: str) -> str:
    return f"{path.name} line {line}: {field}".removesuffix(": ")
