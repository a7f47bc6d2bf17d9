"""A world's state in a dictionary: what a tool sees, without an engine."""

import json
from collections.abc import Iterator, Mapping
from typing import TypeVar

from pydantic import BaseModel, JsonValue

from schemas.base import JsonObject, canonical
from schemas.world import Shown
from tiltyard.worlds.arguments import parse, values
from tiltyard.worlds.kit import Refused, Template, WorldKind

EntityT = TypeVar("EntityT", bound=BaseModel)


class DictState:
    """``kit.State`` over a template. There is no transaction: a tool that refuses must not have saved before.

    ``saved`` lists the rows written, in order; ``scheduled`` the jobs.
    """

    def __init__(self, template: Template, *, seed: int = 0, now_s: int = 0) -> None:
        self._rows = {(name, key): body for name, rows in template.rows.items() for key, body in rows.items()}
        self._sequences: dict[str, int] = {}
        self.seed, self.now_s = seed, now_s
        self.saved: list[tuple[str, str]] = []
        self.scheduled: list[tuple[str, JsonObject, int]] = []

    def load(self, collection: str, key: str) -> JsonValue:
        body = self._rows.get((collection, key))
        return None if body is None else json.loads(body)

    def scan(self, collection: str) -> Iterator[tuple[str, JsonValue]]:
        for name, key in sorted(self._rows):
            if name == collection:
                yield key, self.load(name, key)

    def save(self, collection: str, key: str, body: JsonValue | BaseModel) -> None:
        self._rows[collection, key] = canonical(body)
        self.saved.append((collection, key))

    def delete(self, collection: str, key: str) -> None:
        self._rows.pop((collection, key), None)
        self.saved.append((collection, key))

    def next_id(self, sequence: str) -> int:
        self._sequences[sequence] = self._sequences.get(sequence, 0) + 1
        return self._sequences[sequence]

    def schedule(self, kind: str, arguments: JsonObject, after_s: int) -> str:
        self.scheduled.append((kind, arguments, self.now_s + after_s))
        return f"job-{len(self.scheduled)}"

    def get(self, model: type[EntityT], collection: str, key: str) -> EntityT:
        found = self.find(model, collection, key)
        if found is None:
            raise Refused(f"{collection} has no {key}", code="not_found")
        return found

    def find(self, model: type[EntityT], collection: str, key: str) -> EntityT | None:
        body = self.load(collection, key)
        return None if body is None else model.model_validate(body)

    def all(self, model: type[EntityT], collection: str) -> Iterator[EntityT]:
        return (model.model_validate(body) for _, body in self.scan(collection))


def call(world: WorldKind, state: DictState, tool: str, arguments: Mapping[str, JsonValue]) -> JsonValue:
    """Call a tool as an engine would: arguments checked by the tool's schema, the result as JSON.

    Raises ``Refused``, with code ``bad_arguments`` for those that the schema does not allow.
    """
    parsed = parse(world.tools[tool], dict(arguments))
    if isinstance(parsed, Shown):
        raise Refused(parsed.message, code=parsed.code)
    result: JsonValue = json.loads(canonical(world.tools[tool].run(state, **values(world.tools[tool], parsed))))
    return result
