"""Reading a folder of τ²-bench: ``tasks.json``, ``policy.md``, and where its ``db.json`` is.

The format grows, so fields that are not needed here are not looked at.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, TypeAdapter, ValidationError, model_validator

from schemas.base import JsonObject, JsonValue, canonical
from tiltyard.errors import BadInput
from tiltyard.regular_files import open_regular
from tiltyard.single_keys import repeated

TASKS, POLICY, DATA = "tasks.json", "policy.md", "db.json"

MAX_TASKS_BYTES = 32 * 1024 * 1024
MAX_POLICY_BYTES = 256 * 1024

FORMAT = "it is a list of tasks as τ²-bench writes them"

Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]


class _Source(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class Brief(_Source):
    """What the customer knows and wants. The source writes it to the customer: "you" is the customer."""

    reason_for_call: Text
    known_info: str | None = None
    unknown_info: str | None = None
    task_instructions: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _plain(cls, value: Any) -> Any:
        """Some tasks give the whole brief as one text."""
        return {"reason_for_call": value} if isinstance(value, str) else value


class Scenario(_Source):
    persona: str | None = None
    instructions: Brief


class Action(_Source):
    """One call of the reference. ``compare_args`` are the arguments that matter; ``None`` is all of them."""

    name: str = Field(min_length=1, max_length=200)
    arguments: JsonObject
    requestor: Literal["assistant", "user"] = "assistant"
    compare_args: tuple[str, ...] | None = None


class Criteria(_Source):
    actions: tuple[Action, ...] | None = None
    communicate_info: tuple[Text, ...] | None = None
    env_assertions: tuple[JsonObject, ...] | None = None
    nl_assertions: tuple[str, ...] | None = None
    reward_basis: tuple[str, ...] = ("DB", "COMMUNICATE")


class SourceTask(_Source):
    """A task as its source has it. ``initial_state`` is what it changes about the data before it starts."""

    model_config = ConfigDict(coerce_numbers_to_str=True)

    id: str = Field(min_length=1, max_length=200)
    user_scenario: Scenario
    initial_state: dict[str, JsonValue] | None = None
    evaluation_criteria: Criteria | None = None

    @property
    def actions(self) -> tuple[Action, ...]:
        return (self.evaluation_criteria and self.evaluation_criteria.actions) or ()

    @property
    def facts(self) -> tuple[str, ...]:
        return (self.evaluation_criteria and self.evaluation_criteria.communicate_info) or ()


@dataclass(frozen=True)
class Source:
    """What a folder holds. ``data`` is the file of the starting state."""

    tasks: tuple[SourceTask, ...]
    policy: str
    data: Path


_TASKS = TypeAdapter(tuple[SourceTask, ...])


def read_source(folder: Path) -> Source:
    """The folder's tasks and policy. Raises ``BadInput`` that names the file, the place in it and the fix."""
    data = folder / DATA
    if not data.is_file():
        raise _missing(data, "it is no regular file" if data.exists() else "there is no such file")
    policy = _bytes_of(folder / POLICY, MAX_POLICY_BYTES)
    try:
        text = policy.decode().strip()
    except UnicodeDecodeError as error:
        raise BadInput(f"is not UTF-8 text: {error}", field=POLICY, fix="save it as UTF-8") from None
    return Source(_tasks(_bytes_of(folder / TASKS, MAX_TASKS_BYTES)), text, data)


def _tasks(data: bytes) -> tuple[SourceTask, ...]:
    if twice := repeated(data):
        raise BadInput(twice, field=TASKS, fix="remove one of them")
    try:
        tasks = _TASKS.validate_json(data)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise BadInput(
            first["msg"].removeprefix("Value error, "), field=place(*first["loc"]), fix=FORMAT
        ) from error
    if not tasks:
        raise BadInput("holds no tasks", field=TASKS, fix=FORMAT)
    first_at: dict[str, int] = {}
    for index, task in enumerate(tasks):
        if task.id in first_at:
            raise BadInput(
                f"{task.id!r} is also the id of task {first_at[task.id]}",
                field=place(index, "id"),
                fix="rename one",
            )
        first_at[task.id] = index
        _check_text(index, task)
    return tasks


def _check_text(index: int, task: SourceTask) -> None:
    """Numbers are finite and characters whole: nothing else can be sent to a world or kept."""
    try:
        canonical(task).decode()
    except ValueError as error:
        fix = "write numbers and whole characters"
        raise BadInput(f"cannot be kept as JSON text: {error}", field=place(index), fix=fix) from None


def place(*parts: str | int) -> str:
    """A place in the file of tasks, for ``BadInput.field``; tasks count from 0."""
    return f"{TASKS}: {'.'.join(map(str, parts))}" if parts else TASKS


def _bytes_of(path: Path, limit: int) -> bytes:
    try:
        with open_regular(path) as file:
            data = file.read(limit + 1)
    except OSError as error:
        raise _missing(path, error.strerror or "it cannot be opened") from error
    if len(data) > limit:
        raise BadInput(f"is over {limit // 1024} KiB", field=path.name, fix="import a part of it")
    return data


def _missing(path: Path, why: str) -> BadInput:
    return BadInput(
        f"cannot read {path}: {why}", field=path.name, fix=f"name a folder with {DATA}, {TASKS} and {POLICY}"
    )
