"""What a world is made of. A world's author imports this module and nothing else of the engine."""

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Protocol, TypeVar, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, JsonValue, create_model

from schemas.base import JsonObject, canonical, sha256
from schemas.tool import ToolSpec
from tiltyard.errors import BadInput, Refused

__all__ = ["BadInput", "Entity", "Job", "Refused", "State", "Template", "Tool", "WorldKind", "job", "tool"]


class Entity(BaseModel):
    """An entity of a world: its body is stored as JSON. Frozen; change it with ``model_copy(update=…)``."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


EntityT = TypeVar("EntityT", bound=BaseModel)


class State(Protocol):
    """The world as one tool call or job sees it: reads and writes of one transaction.

    ``load`` and ``scan`` give bodies of their own: to mutate one changes nothing. ``scan`` yields in key order
    (code points), whatever the database. ``now_s`` is the world's clock in seconds since the episode's start.
    """

    @property
    def now_s(self) -> int: ...

    @property
    def seed(self) -> int: ...

    def load(self, collection: str, key: str) -> JsonValue:
        """The body, or ``None`` when there is none."""
        ...

    def scan(self, collection: str) -> Iterator[tuple[str, JsonValue]]: ...

    def save(self, collection: str, key: str, body: JsonValue | BaseModel) -> None: ...

    def delete(self, collection: str, key: str) -> None: ...

    def next_id(self, sequence: str) -> int:
        """1, 2, 3 … by sequence; a refused call gives its numbers back."""
        ...

    def schedule(self, kind: str, arguments: JsonObject, after_s: int) -> str:
        """Run a job of the world when the clock has moved by ``after_s`` (at least 1) seconds; its job id."""
        ...

    def get(self, model: type[EntityT], collection: str, key: str) -> EntityT:
        """The entity. Raises ``Refused`` with code ``not_found`` when there is none."""
        ...

    def find(self, model: type[EntityT], collection: str, key: str) -> EntityT | None: ...

    def all(self, model: type[EntityT], collection: str) -> Iterator[EntityT]: ...


@dataclass(frozen=True)
class Template:
    """An immutable starting state. Bodies are kept as canonical bytes, so nobody can change them in place.

    ``rows`` maps collection and key to bytes. ``jobs`` are deferred jobs pending from the start:
    (kind, arguments, due_s).
    """

    rows: Mapping[str, Mapping[str, bytes]]
    jobs: tuple[tuple[str, bytes, int], ...] = ()
    digest: str = ""

    @classmethod
    def of(
        cls,
        collections: Mapping[str, Mapping[str, JsonValue | BaseModel]],
        jobs: tuple[tuple[str, JsonObject, int], ...] = (),
    ) -> "Template":
        """Freeze plain values or entities into a template and take its digest.

        Raises ``BadInput`` that names the row for one that is no JSON or no Unicode.
        """
        rows = {
            name: MappingProxyType({key: _frozen(f"{name}/{key}", body) for key, body in sorted(bodies.items())})
            for name, bodies in sorted(collections.items())
        }
        kept = tuple((kind, _frozen(f"the job {kind}", arguments), due_s) for kind, arguments, due_s in jobs)
        return cls(MappingProxyType(rows), kept, template_digest(rows, kept))


def _frozen(place: str, body: JsonValue | BaseModel) -> bytes:
    """Canonical bytes that are UTF-8 throughout: views and traces could not carry half a character (surrogate)."""
    try:
        frozen = canonical(body)
        for text in (place.encode("utf-8", "surrogatepass"), frozen):
            text.decode()
    except ValueError as error:
        raise BadInput(
            f"cannot be kept as JSON text: {error}",
            field=f"template: {place.encode('ascii', 'backslashreplace').decode()}",
            fix="write numbers and whole characters; \\ud800 to \\udfff come only in pairs",
        ) from None
    return frozen


def template_digest(rows: Mapping[str, Mapping[str, bytes]], jobs: tuple[tuple[str, bytes, int], ...]) -> str:
    """Digest over every row and job of a template, in order."""
    parts = [
        b"\x00".join((name.encode(), key.encode(), body))
        for name in sorted(rows)
        for key, body in sorted(rows[name].items())
    ]
    parts += [b"\x01".join((kind.encode(), arguments, str(due).encode())) for kind, arguments, due in jobs]
    return sha256(b"\x02".join(parts))


@dataclass(frozen=True)
class Tool:
    """A typed function with the one schema that is used for prompting, parsing and calling."""

    spec: ToolSpec
    arguments: type[BaseModel]
    run: Callable[..., Any]


@dataclass(frozen=True)
class Job:
    """A deferred job: ``run(state, **arguments)``, in a transaction of its own when it is due."""

    kind: str
    run: Callable[..., None]


def tool(*, writes: bool = False, cost_s: int = 1) -> Callable[[Callable[..., Any]], Tool]:
    """Make a tool of a function ``(state, argument: type, …)``.

    The docstring is the description; ``Annotated[str, Field(description=…)]`` describes an argument. A tool
    that ``writes`` is also offered an optional ``operation_id``, which the engine handles: the function does
    not see it.
    """

    def made(function: Callable[..., Any]) -> Tool:
        name = function.__name__.rstrip("_")
        arguments = _arguments_model(name, function, writes)
        spec = ToolSpec(
            name=name,
            description=inspect.cleandoc(function.__doc__ or name),
            parameters=arguments.model_json_schema(),
            writes=writes,
            cost_s=cost_s,
        )
        return Tool(spec, arguments, function)

    return made


OPERATION_ID = Field(
    default=None,
    min_length=1,
    max_length=200,
    description="Your own name for this operation. Sent again under the same name, it takes effect once.",
)


def _arguments_model(name: str, function: Callable[..., Any], writes: bool) -> type[BaseModel]:
    hints = get_type_hints(function, include_extras=True)
    parameters = list(inspect.signature(function).parameters.values())[1:]
    fields: dict[str, Any] = {
        p.name: (hints[p.name], ... if p.default is inspect.Parameter.empty else p.default) for p in parameters
    }
    if writes:
        fields["operation_id"] = (str | None, OPERATION_ID)
    # Strict, as the schema says: an effect has one spelling, so "5" is not 5.
    config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, strict=True)
    return create_model(name, __config__=config, **fields)


def job(function: Callable[..., None]) -> Job:
    """Make a job of a function ``(state, **arguments)``; its name is the job's kind."""
    return Job(function.__name__.rstrip("_"), function)


@dataclass(frozen=True)
class WorldKind:
    """A kind of world: its tools, jobs and templates.

    ``template(name, params)`` loads or generates a starting state; it raises ``BadInput`` that names the
    parameter. The engine adds the tools ``wait`` and ``get_receipt`` to every world.
    """

    name: str
    description: str
    tools: Mapping[str, Tool]
    template: Callable[[str, JsonObject], Template]
    jobs: Mapping[str, Job] = field(default_factory=dict)
    templates: tuple[str, ...] = ("default",)

    @classmethod
    def of(
        cls,
        name: str,
        description: str,
        tools: tuple[Tool, ...],
        template: Callable[[str, JsonObject], Template],
        jobs: tuple[Job, ...] = (),
        templates: tuple[str, ...] = ("default",),
    ) -> "WorldKind":
        return cls(
            name,
            description,
            MappingProxyType({one.spec.name: one for one in tools}),
            template,
            MappingProxyType({one.kind: one for one in jobs}),
            templates,
        )
