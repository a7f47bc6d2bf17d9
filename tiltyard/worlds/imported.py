"""The template ``imported`` of every world: a starting state that is kept as a file, named by its digest.

A task names it by that digest alone, so a task is the same on every machine. What is read is checked against it.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from pydantic import ValidationError

from schemas.base import JsonObject, JsonValue, Model, canonical
from schemas.world import TemplateRef
from tiltyard.errors import BadInput
from tiltyard.worlds.kit import Template, WorldKind
from tiltyard.worlds.rows import decoded

IMPORTED = "imported"
DIGEST = "digest"
"""Its only parameter."""

FIX = "import it again with `tiltyard import`"


class _Kept(Model):
    """A template as its file holds it: the world that it is of, rows, and pending jobs (kind, arguments, due)."""

    world: str
    rows: dict[str, dict[str, JsonValue]]
    jobs: tuple[tuple[str, JsonObject, int], ...] = ()


class WithImported(Mapping[str, WorldKind]):
    """These worlds, each with the templates that are kept in ``folder``. None is loaded before it is asked for."""

    def __init__(self, worlds: Mapping[str, WorldKind], folder: Path) -> None:
        self._worlds, self._folder = worlds, folder

    def __getitem__(self, name: str) -> WorldKind:
        kind = self._worlds[name]

        def template(named: str, params: JsonObject) -> Template:
            return _read(self._folder, kind.name, params) if named == IMPORTED else kind.template(named, params)

        return replace(kind, template=template, templates=(*kind.templates, IMPORTED))

    def __iter__(self) -> Iterator[str]:
        return iter(self._worlds)

    def __len__(self) -> int:
        return len(self._worlds)


def ref_of(template: Template) -> TemplateRef:
    """How a task names the template once it is kept."""
    return TemplateRef(name=IMPORTED, params={DIGEST: template.digest})


def file_of(digest: str) -> str:
    """The name of the file of a template. Raises ``BadInput`` for what is no digest."""
    if not re.fullmatch("sha256:[0-9a-f]{64}", digest):
        raise BadInput(
            f"{digest[:80]!r} is no digest",
            field=f"template.params.{DIGEST}",
            fix="write sha256: and 64 hex digits",
        )
    return f"{digest.replace(':', '-')}.json"


def kept(world: str, template: Template) -> bytes:
    """What the file of a template holds."""
    rows = {name: {key: decoded(body) for key, body in bodies.items()} for name, bodies in template.rows.items()}
    jobs = [(kind, decoded(arguments), due_s) for kind, arguments, due_s in template.jobs]
    return canonical({"world": world, "rows": rows, "jobs": jobs})


def _read(folder: Path, world: str, params: JsonObject) -> Template:
    """Raises ``BadInput`` when there is no such template of this world, or its file has changed."""
    digest = params.get(DIGEST)
    if not isinstance(digest, str) or len(params) != 1:
        raise BadInput(f"needs {DIGEST} and nothing else", field="template.params", fix=FIX)
    path = folder / file_of(digest)
    field = f"template.params.{DIGEST}"
    try:
        held = _Kept.model_validate_json(path.read_bytes())
    except OSError as error:
        raise BadInput(f"cannot read {path}: {error.strerror}", field=field, fix=FIX) from error
    except ValidationError as error:
        raise BadInput(f"{path} does not hold a template", field=field, fix=FIX) from error
    if held.world != world:
        raise BadInput(f"is a template of {held.world}, not of {world}", field=field, fix=FIX)
    template = Template.of(held.rows, held.jobs)
    if template.digest != digest:
        raise BadInput(f"{path} has changed: it holds {template.digest}", field=field, fix=FIX)
    return template
