"""What a fork has other than its parent: a task with another instruction, other limits or other faults."""

from collections.abc import Mapping, Sequence

from pydantic import ValidationError

from schemas.base import JsonValue
from schemas.task import Task
from tiltyard.suite.explain import explain


def changed(
    task: Task,
    *,
    instruction: str | None = None,
    limits: Mapping[str, JsonValue] | None = None,
    faults: Sequence[JsonValue] | None = None,
) -> Task:
    """The task with these in the place of its own; ``faults`` are a whole plan. Raises ``BadTask`` naming the field
    of the task."""
    wanted: dict[str, JsonValue] = {
        **({} if instruction is None else {"instruction": instruction}),
        **({} if not limits else {"limits": {**task.limits.model_dump(mode="json"), **limits}}),
        **({} if faults is None else {"faults": list(faults)}),
    }
    if not wanted:
        return task
    try:
        return Task.model_validate({**task.model_dump(mode="json"), **wanted})
    except ValidationError as error:
        raise explain(error)[0] from None
