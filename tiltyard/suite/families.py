"""Suites and families: a folder of task files, each read when one of its tasks is asked for.

A YAML file is written by a person and rendered; a JSON file is made by a program, such as an importer, and taken
literally. Both have the same fields.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import Any, cast

from pydantic import ValidationError

import tasks
from schemas.base import JsonObject, JsonValue
from schemas.task import Task
from tiltyard.errors import BadInput, BadTask
from tiltyard.suite.beside import fill_in
from tiltyard.suite.explain import explain, first_of, joined, nearest
from tiltyard.suite.reading import READERS, TASK_FILE
from tiltyard.suite.rendering import render_vars, render_what_can_be
from tiltyard.suite.standing import standing

LITERAL = ".json"
"""The suffix of files whose strings are what they are."""

PINNED = "pinned"
"""The folder beside the worlds of a suite whose files are pins (``tiltyard.reopen.pin_files``), and no tasks."""

SHOWN = 5
"""Ids in a message at most."""


@dataclass(frozen=True)
class Family:
    """One task file. ``name`` is ``world/family``; the file is read at first use, and read once."""

    name: str
    path: Path
    shown: str

    @property
    def world(self) -> str:
        return self.name.split("/")[0]

    @cached_property
    def _file(self) -> JsonObject:
        """The file with its frame checked: names and the shape of ``vars`` and ``variants``."""
        read = READERS[self.path.suffix](self.path, self.shown, TASK_FILE)
        for key, expected in zip(("world", "family"), self.name.split("/"), strict=True):
            if read.get(key) != expected:
                raise BadTask(
                    f"is {read.get(key)!r}, and the file's place says {expected!r}",
                    field=joined(self.shown, key),
                    fix=f"a file lies at WORLD/FAMILY{self.path.suffix}",
                )
        variants = read.get("variants")
        if not isinstance(variants, dict) or not variants:
            raise BadTask(
                "is not a mapping of variants", field=joined(self.shown, "variants"), fix='start it with "1":'
            )
        for name, values in variants.items():
            if not isinstance(values, dict | None):
                field = joined(self.shown, f"variants.{name}")
                raise BadTask("is not a mapping", field=field, fix="give it the fields that differ, or {}")
        return read

    @property
    def ids(self) -> tuple[str, ...]:
        """Ids of all variants, in the file's order. Raises ``BadTask``."""
        return tuple(f"{self.name}/{variant}" for variant in cast(JsonObject, self._file["variants"]))

    @cached_property
    def _made(self) -> dict[str, Task | tuple[BadTask, ...]]:
        return {}

    def task(self, variant: str) -> Task:
        """One variant, rendered and checked against the model. Raises ``BadTask``."""
        found = self.read(variant)
        if not isinstance(found, Task):
            raise first_of(found)
        return found

    def read(self, variant: str) -> Task | tuple[BadTask, ...]:
        """One variant, or everything that is wrong with it."""
        if variant not in self._made:
            try:
                self._made[variant] = self._render(variant)
            except BadTask as error:
                self._made[variant] = (error,)
        return self._made[variant]

    def _render(self, variant: str) -> Task | tuple[BadTask, ...]:
        where = joined(self.shown, f"variant {variant}")
        common = {key: value for key, value in self._file.items() if key not in ("family", "variants")}
        own = cast(JsonObject, cast(JsonObject, self._file["variants"])[variant] or {})
        misplaced = sorted(own.keys() & {"family", "world", "variants", "id"})
        if misplaced:
            raise BadTask("cannot differ between variants", field=joined(where, misplaced[0]), fix="remove it")
        merged = cast(JsonObject, merge(common, own))
        if self.path.suffix == LITERAL:
            return self._told(where, _literal(merged, f"{self.name}/{variant}"))
        variables = merged.pop("vars", None) or {}
        if not isinstance(variables, dict):
            raise BadTask("is not a mapping", field=joined(where, "vars"), fix="write it as NAME: VALUE")
        return self._told(where, _made_of(merged, variables, f"{self.name}/{variant}", self.path.parent))

    def _told(self, where: str, made: Task | Sequence[BadTask]) -> Task | tuple[BadTask, ...]:
        if isinstance(made, Task):
            return made
        return tuple(BadTask(one.message, field=joined(where, one.field), fix=one.fix) for one in made)


def _made_of(merged: JsonObject, variables: JsonObject, task_id: str, beside: Path) -> Task | list[BadTask]:
    """The task, or everything that can be known to be wrong with it.

    What a string would have been that cannot be rendered is not known: nothing is said of its place in the model.
    """
    problems: list[BadTask] = []
    try:
        values = render_vars(variables, problems)
    except BadTask as error:
        return [error]
    if problems:  # nothing is known of a string that needs what is missing
        return problems
    rendered = fill_in(render_what_can_be(merged, values, problems), beside, problems)
    try:
        task = Task.model_validate({**cast(dict[str, Any], rendered), "id": task_id})
    except ValidationError as error:
        problems += explain(error, [one.field for one in problems])
        return problems
    return problems or task


def _literal(fields: JsonObject, task_id: str) -> Task | tuple[BadTask, ...]:
    try:
        return Task.model_validate({**fields, "id": task_id})
    except ValidationError as error:
        return explain(error)


@dataclass(frozen=True)
class Suite:
    """Families by name. Nothing is read until it is asked for."""

    families: Mapping[str, Family]

    @property
    def ids(self) -> tuple[str, ...]:
        """Every task id. Raises ``BadTask``."""
        return tuple(task_id for family in self.families.values() for task_id in family.ids)

    def task(self, task_id: str) -> Task:
        """One task. Raises ``BadTask`` with close matches when there is none, and for the name of several."""
        found = self.match((task_id,))
        if len(found) > 1:
            names = ", ".join(task.id for task in found[:SHOWN])
            more = ", …" if len(found) > SHOWN else ""
            raise BadTask(f"is {len(found)} tasks", field=task_id, fix=f"name one of {names}{more}")
        return found[0]

    def match(self, globs: Sequence[str]) -> tuple[Task, ...]:
        """Tasks whose id matches one of the globs, each once, in the suite's order.

        A glob is matched part by part: ``replacement`` is a whole world, ``replacement/reply-*`` are families and
        ``*/*/1`` first variants. Only files of families that match are read. Raises ``BadTask`` for a glob that
        matches nothing.
        """
        chosen: dict[str, Task] = {}
        for glob in globs:
            chosen.update(self._matching(glob))
        place = {name: index for index, name in enumerate(self.families)}
        return tuple(sorted(chosen.values(), key=lambda task: place[task.family]))

    def _matching(self, glob: str) -> dict[str, Task]:
        parts = glob.strip("/").split("/")
        if len(parts) > 3:
            raise BadTask("has more than three parts", field=glob, fix="an id is WORLD/FAMILY/VARIANT")
        globs = [*parts, "*", "*"][:3]
        near = [family for name, family in self.families.items() if _fits(name.split("/"), globs[:2])]
        ids = [task_id for family in near for task_id in family.ids]
        found = [task_id for task_id in ids if _fits(task_id.split("/"), globs)]
        if not found:
            raise BadTask("no task has this id", field=glob, fix=nearest(glob, ids or self._close(parts)))
        return {task_id: self._family_of(task_id).task(task_id.rsplit("/", 1)[1]) for task_id in found}

    def _close(self, parts: Sequence[str]) -> tuple[str, ...]:
        """What may have been meant: families, or tasks of those that are close where a task was named."""
        families = get_close_matches("/".join(parts[:2]), self.families, n=3)
        if len(parts) < 3 or not families:
            return tuple(self.families)
        with suppress(BadTask):
            return tuple(task_id for name in families for task_id in self.families[name].ids)
        return tuple(families)

    def _family_of(self, task_id: str) -> Family:
        return self.families[task_id.rsplit("/", 1)[0]]

    def listing(self) -> tuple[JsonObject, ...]:
        """What ``tasks list`` prints: one JSON object a task. Raises ``BadTask``."""
        return tuple(_listed(self.task(task_id)) for task_id in self.ids)

    def each(self) -> Iterator[Task | BadTask]:
        """Every task, or everything that is wrong with it; a bad file or task does not hide the others."""
        for family in self.families.values():
            try:
                variants = [task_id.rsplit("/", 1)[1] for task_id in family.ids]
            except BadTask as error:
                yield error
                continue
            for variant in variants:
                found = family.read(variant)
                if isinstance(found, Task):
                    yield found
                else:
                    yield from found


def load_suite(place: Path) -> Suite:
    """The suite in a folder of ``WORLD/FAMILY.yaml`` or ``.json`` files, of one of its worlds, or of one such file.

    Raises ``BadInput`` when there is none, and for two files of one family. Bad files are reported when they are
    used.
    """
    if place.is_file() and place.resolve().parent.name == PINNED:
        raise BadInput(
            "is a pin, and no task file", field=str(place), fix=f"`tiltyard tasks check {place}` plays it"
        )
    files = [place] if place.is_file() else _task_files(place, "*/*") or _task_files(place, "*")
    if not files:
        raise BadInput("holds no task files", field=str(place), fix="put them at WORLD/FAMILY.yaml")
    names: dict[str, Path] = {}
    for file in files:
        name = f"{file.resolve().parent.name}/{file.stem}"
        if file.suffix not in READERS:
            raise BadInput("is no task file", field=str(file), fix=f"task files end in {' or '.join(READERS)}")
        if name in names:
            raise BadInput(f"{name} is also in {names[name]}", field=str(file), fix="remove one, or rename it")
        names[name] = file
    root = Path(os.path.abspath(files[0])).parent.parent  # links are named as they are given
    shown = {
        name: str(file if file is place else Path(os.path.abspath(file)).relative_to(root))
        for name, file in names.items()
    }
    return Suite({name: Family(name, names[name], shown[name]) for name in sorted(names)})


def _task_files(place: Path, pattern: str) -> list[Path]:
    found = (file for suffix in READERS for file in place.glob(pattern + suffix))
    return sorted(file for file in found if file.resolve().parent.name != PINNED)


def shipped() -> Suite:
    """The suite of this installation."""
    return load_suite(Path(tasks.__path__[0]))


def merge(common: JsonValue, own: JsonValue) -> JsonValue:
    """``own`` over ``common``: mappings are merged, anything else is replaced."""
    if not (isinstance(common, dict) and isinstance(own, dict)):
        return own
    return {**common, **{key: merge(common[key], item) if key in common else item for key, item in own.items()}}


def _fits(name: Sequence[str], globs: Sequence[str]) -> bool:
    return all(fnmatchcase(part, glob) for part, glob in zip(name, globs, strict=True))


def _listed(task: Task) -> JsonObject:
    return {
        "id": task.id,
        "family": task.family,
        "world": task.world,
        "needs_sandbox": task.needs_sandbox,
        "instruction": task.instruction,
        "references": [reference.name for reference in task.references],
        "digest": task.digest,
        "standing": standing(task).value,
        "metadata": task.metadata,
    }
