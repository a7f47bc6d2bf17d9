"""Importing τ²-bench: a template and one task for each public task of a domain's folder.

The end state that a task expects is what its reference comes to, played on a fresh namespace of the template.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from schemas.base import JsonObject
from schemas.imported import ImportedTask, ImportReport
from schemas.task import Task
from tiltyard.errors import BadInput, EnvironmentFailed
from tiltyard.importing.tau2_source import DATA, Source, SourceTask, place, read_source
from tiltyard.importing.tau2_tasks import Graded, idle_passes, no_call, task_fields, unscorable
from tiltyard.suite.explain import explain
from tiltyard.worlds.imported import ref_of
from tiltyard.worlds.kit import Template, WorldKind
from tiltyard.worlds.sequence import BREAKDOWNS, Sequences

FAMILY = "tau2"


@dataclass(frozen=True)
class Imported:
    """What an import makes: a template of ``world``, and the task file ``WORLD/FAMILY``."""

    world: str
    family: str
    template: Template
    file: JsonObject
    report: ImportReport


def import_tau2(folder: Path, worlds: Mapping[str, WorldKind]) -> Imported:
    """Make tasks of a domain's folder; nothing is written.

    Raises ``BadInput`` that names the file and the place in it, and for a domain whose tools no world has, naming
    them; ``EnvironmentFailed`` when a tool of ours breaks down under a reference.
    """
    source = read_source(folder)
    world = _world_for(source, worlds)
    template = _template(source, world)
    sequences = Sequences(world, template)
    made = [_made(index, task, source, world, template, sequences) for index, task in enumerate(source.tasks)]
    variants: dict[str, JsonObject] = {}
    for index, (marks, fields) in enumerate(made):
        name = marks.id.rsplit("/", 1)[1]
        if name in variants:
            raise BadInput(f"gives the name {name!r} again", field=place(index, "id"), fix="rename the task")
        variants[name] = fields
    report = ImportReport(
        source=FAMILY,
        family=f"{world.name}/{FAMILY}",
        template=ref_of(template),
        tasks=tuple(marks for marks, _ in made),
    )
    file: JsonObject = {"family": FAMILY, "world": world.name, "variants": dict(variants)}
    return Imported(world.name, FAMILY, template, file, report)


def _world_for(source: Source, worlds: Mapping[str, WorldKind]) -> WorldKind:
    """The world that has every tool of the references, of those that can load a file of data."""
    used = {action.name for task in source.tasks for action in task.actions}
    kinds = [kind for kind in worlds.values() if "file" in kind.templates]
    if not kinds:
        raise BadInput("no world can load a file of data", field=DATA, fix="use a world that has such a template")
    nearest = min(kinds, key=lambda kind: len(used - kind.tools.keys()))
    missing = sorted(used - nearest.tools.keys())
    if missing:
        raise BadInput(
            f"no world has the tools of this domain; {nearest.name} lacks {', '.join(missing)}",
            field=place("evaluation_criteria.actions"),
            fix=f"import a domain whose tools are those of {', '.join(kind.name for kind in kinds)}",
        )
    return nearest


def _template(source: Source, world: WorldKind) -> Template:
    try:
        return world.template("file", {"path": str(source.data.resolve())})
    except BadInput as error:
        field = f"{DATA}: {error.field}".removesuffix("template.params.path").rstrip(": ")
        raise BadInput(error.message, field=field, fix=error.fix) from error


def _made(
    index: int, task: SourceTask, source: Source, world: WorldKind, template: Template, sequences: Sequences
) -> tuple[ImportedTask, JsonObject]:
    why = unscorable(task)
    graded = Graded((), ()) if why else _graded(task, sequences)
    fields = task_fields(task, graded, source.policy, ref_of(template), world)
    task_id = f"{world.name}/{FAMILY}/{_variant(index, task)}"
    _check(index, {**fields, "id": task_id, "world": world.name})
    criteria = task.evaluation_criteria
    marks = ImportedTask(
        id=task_id,
        failing_steps=graded.failing,
        idle_passes=idle_passes(task, graded),
        unscorable=why,
        no_call=no_call(task),
        ungraded=len((criteria and criteria.nl_assertions) or ()),
    )
    return marks, fields


def _graded(task: SourceTask, sequences: Sequences) -> Graded:
    played = sequences.play((action.name, action.arguments) for action in task.actions)
    for number, shown in enumerate(played.shown, 1):
        if shown.code in BREAKDOWNS:
            raise EnvironmentFailed(f"task {task.id}, action {number}: the tool broke down: {shown.message}")
    return Graded.of(task.actions, played)


def _variant(index: int, task: SourceTask) -> str:
    name = re.sub("[^a-z0-9._-]+", "-", task.id.lower()).strip("._-")
    if not name:
        raise BadInput(f"{task.id!r} has no letter or digit", field=place(index, "id"), fix="rename the task")
    return name


def _check(index: int, fields: JsonObject) -> None:
    try:
        Task.model_validate(fields)
    except ValidationError as error:
        problem = explain(error)[0]
        raise BadInput(
            f"makes a task that is not well formed: {problem.message}",
            field=f"{place(index)}: {problem.field}",
            fix=problem.fix or "mend the task",
        ) from error
