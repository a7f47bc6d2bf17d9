"""The world as one tool call or job sees it."""

from collections.abc import Iterator, Mapping

from pydantic import BaseModel

from schemas.base import JsonObject, JsonValue
from schemas.world import SYSTEM, Receipt
from schemas.world import Job as JobRow
from tiltyard.errors import Refused
from tiltyard.worlds.draft import Draft
from tiltyard.worlds.kit import EntityT, Job
from tiltyard.worlds.rows import JOBS, LONGEST_DELAY_S, RECEIPTS, SEQUENCES, Cause
from tiltyard.worlds.template_reader import job_id

JOB_SEQUENCE = "~jobs"


class DraftState:
    """``kit.State`` over a draft; every change is laid to ``cause``."""

    def __init__(self, draft: Draft, cause: Cause, jobs: Mapping[str, Job]) -> None:
        self._draft, self._cause, self._jobs = draft, cause, jobs

    @property
    def now_s(self) -> int:
        return self._draft.now_s

    @property
    def seed(self) -> int:
        return self._draft.request.seed

    def load(self, collection: str, key: str) -> JsonValue:
        return self._draft.load(_own(collection), key)

    def scan(self, collection: str) -> Iterator[tuple[str, JsonValue]]:
        return self._draft.scan(_own(collection))

    def save(self, collection: str, key: str, body: JsonValue | BaseModel) -> None:
        if body is None:
            raise ValueError(f"{collection}/{key}: a body is not None; delete the row instead")
        self._draft.save(self._cause, _own(collection), key, body)

    def delete(self, collection: str, key: str) -> None:
        self._draft.save(self._cause, _own(collection), key, None)

    def next_id(self, sequence: str) -> int:
        return self._next(_own(sequence), first=1)

    def schedule(self, kind: str, arguments: JsonObject, after_s: int) -> str:
        if kind not in self._jobs:
            raise ValueError(f"the world has no job {kind}")
        if not 1 <= after_s <= LONGEST_DELAY_S:
            raise Refused(f"after_s: give 1 to {LONGEST_DELAY_S} seconds", code="bad_arguments")
        job = JobRow(
            job_id=job_id(self._next(JOB_SEQUENCE, first=self._draft.base.jobs + 1)),
            kind=kind,
            arguments=arguments,
            due_s=self.now_s + after_s,
            created_by=self._cause.id,
        )
        self._draft.save(self._cause, JOBS, job.job_id, job)
        return job.job_id

    def get(self, model: type[EntityT], collection: str, key: str) -> EntityT:
        found = self.find(model, collection, key)
        if found is None:
            raise Refused(f"there is no {key!r} in {collection}", code="not_found")
        return found

    def find(self, model: type[EntityT], collection: str, key: str) -> EntityT | None:
        body = self.load(collection, key)
        return None if body is None else model.model_validate(body)

    def all(self, model: type[EntityT], collection: str) -> Iterator[EntityT]:
        return (model.model_validate(body) for _, body in self.scan(collection))

    def receipt(self, operation_id: str) -> Receipt | None:
        """The receipt of an operation id that was accepted."""
        body = self._draft.load(RECEIPTS, operation_id)
        return None if body is None else Receipt.model_validate(body)

    def _next(self, sequence: str, first: int) -> int:
        last = self._draft.load(SEQUENCES, sequence)
        number = last + 1 if isinstance(last, int) else first
        self._draft.save(self._cause, SEQUENCES, sequence, number)
        return number


def _own(collection: str) -> str:
    if collection.startswith(SYSTEM):
        raise ValueError(f"{collection}: names that start with {SYSTEM} are the engine's")
    return collection
