"""The one way in which templates are read, and the check that reading has not changed them (I4)."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping

from schemas.base import JsonValue, canonical
from schemas.world import SYSTEM, Job, TemplateRef
from tiltyard.errors import BadInput
from tiltyard.worlds.kit import Template, WorldKind, template_digest
from tiltyard.worlds.rows import JOBS, LONGEST_DELAY_S, decoded

CACHED_TEMPLATES = 32


def job_id(number: int) -> str:
    """The id of the ``number``-th job scheduled in a namespace, the template's own jobs first."""
    return f"job-{number:06d}"


class TemplateReader:
    """Serves a template's rows, decoded anew at each read.

    It remembers what it has served since the last check, so that the check is O(reads), not O(template). Jobs
    that are pending from the start are rows of the system collection of jobs.
    """

    def __init__(self, template: Template) -> None:
        self.digest = template_digest(template.rows, template.jobs)
        self.jobs = len(template.jobs)
        self._rows: dict[str, Mapping[str, bytes]] = {**template.rows, JOBS: _job_rows(template)}
        self._served: set[tuple[str, str]] = set()
        self._lock = threading.Lock()

    def load(self, collection: str, key: str) -> JsonValue:
        """The body, or ``None`` when the template has no such row."""
        if self.image(collection, key) is not None:
            with self._lock:
                self._served.add((collection, key))
        return self.served(collection, key)

    def served(self, collection: str, key: str) -> JsonValue:
        """The body as every reader gets it: a fresh object each time."""
        return decoded(self.image(collection, key))

    def image(self, collection: str, key: str) -> bytes | None:
        """The body as the template keeps it."""
        return self._rows.get(collection, {}).get(key)

    def keys(self, collection: str) -> Iterable[str]:
        return self._rows.get(collection, {}).keys()

    def altered(self) -> tuple[tuple[str, str], ...]:
        """Rows that are served otherwise than the template keeps them, of those served since the last check."""
        with self._lock:
            served, self._served = self._served, set()
        return tuple(
            (collection, key)
            for collection, key in sorted(served)
            if canonical(self.served(collection, key)) != self.image(collection, key)
        )


def _job_rows(template: Template) -> dict[str, bytes]:
    jobs = (
        Job.model_validate(
            {"job_id": job_id(number), "kind": kind, "arguments": decoded(arguments), "due_s": due_s}
        )
        for number, (kind, arguments, due_s) in enumerate(template.jobs, start=1)
    )
    return {job.job_id: canonical(job) for job in jobs}


class Templates:
    """Templates in use, loaded once each. ``reader`` makes the reader of a template."""

    def __init__(self, reader: Callable[[Template], TemplateReader] = TemplateReader) -> None:
        self._reader = reader
        self._readers: OrderedDict[tuple[str, bytes], TemplateReader] = OrderedDict()
        self._lock = threading.Lock()

    def reader(self, kind: WorldKind, ref: TemplateRef) -> TemplateReader:
        """Raises ``BadInput`` for a template that the world cannot make."""
        name = (kind.name, canonical(ref))
        with self._lock:
            if name not in self._readers:
                self._readers[name] = self._reader(_checked(kind, kind.template(ref.name, dict(ref.params))))
            self._readers.move_to_end(name)
            while len(self._readers) > CACHED_TEMPLATES:
                self._readers.popitem(last=False)
            return self._readers[name]

    def forget(self, kind: WorldKind, ref: TemplateRef) -> None:
        """Load it anew next time: what is in memory is not the template any more."""
        with self._lock:
            self._readers.pop((kind.name, canonical(ref)), None)


def _checked(kind: WorldKind, template: Template) -> Template:
    for collection in template.rows:
        if collection.startswith(SYSTEM):
            raise BadInput(
                f"the collection {collection} of a template of {kind.name} is the engine's",
                field="template",
                fix=f"choose a name that does not start with {SYSTEM}",
            )
    for job, _, due_s in template.jobs:
        if job not in kind.jobs or not 1 <= due_s <= LONGEST_DELAY_S:
            known = ", ".join(sorted(kind.jobs)) or "none"
            raise BadInput(
                f"a template of {kind.name} has the job {job} due at {due_s} s",
                field="template.jobs",
                fix=f"jobs are due at 1 to {LONGEST_DELAY_S} s; the world's jobs are: {known}",
            )
    return template
