"""A world's clock and its deferred jobs. The clock moves only here, and never by itself."""

import logging
from collections.abc import Mapping

from schemas.span import CLOCK_END_S
from schemas.world import Job as JobRow
from tiltyard.errors import Refused
from tiltyard.worlds.draft import NOW, Draft
from tiltyard.worlds.kit import Job
from tiltyard.worlds.rows import CLOCK, ENDED_JOBS, JOBS, Cause
from tiltyard.worlds.state import DraftState

MAX_JOBS = 1_000
"""Jobs that one call may run. The clock stops there, and the call says so."""

ELSEWHERE = "elsewhere"

log = logging.getLogger(__name__)


def jobs(draft: Draft) -> tuple[JobRow, ...]:
    """All jobs, in the order in which they were scheduled."""
    found = [*draft.scan(JOBS), *draft.scan(ENDED_JOBS)]
    return tuple(JobRow.model_validate(body) for _, body in sorted(found, key=lambda row: _scheduled(row[0])))


def pending(draft: Draft) -> tuple[JobRow, ...]:
    """Pending jobs in the order in which they will run: by due time, then as they were scheduled."""
    found = (JobRow.model_validate(body) for _, body in draft.scan(JOBS))
    return tuple(sorted(found, key=lambda job: (job.due_s, _scheduled(job.job_id))))


def _scheduled(job_id: str) -> tuple[int, str]:
    """Sorts ids by their numbers, of however many digits."""
    return len(job_id), job_id


def _end(draft: Draft, job: JobRow, state: str, error: str = "") -> None:
    """A job has ended; the change is laid to the job itself."""
    cause = Cause("job", job.job_id, job.kind)
    draft.save(cause, JOBS, job.job_id, None)
    draft.save(cause, ENDED_JOBS, job.job_id, job.model_copy(update={"state": state, "error": error}))


def made_up_s(draft: Draft) -> int:
    """How much of the time spent outside the world its clock has made up for."""
    seen = draft.load(CLOCK, ELSEWHERE)
    return seen if isinstance(seen, int) else 0


class Clock:
    """Moves one draft's clock, up to ``CLOCK_END_S``. ``jobs_run`` counts towards ``MAX_JOBS``."""

    def __init__(self, draft: Draft, kinds: Mapping[str, Job], jobs_run: int = 0) -> None:
        self._draft, self._kinds, self.jobs_run = draft, kinds, jobs_run

    def advance(self, target_s: int, cause: Cause) -> bool:
        """Move to ``target_s`` and run what falls due on the way. False when there was too much of it."""
        while self.run_next(target_s, cause):
            pass
        if self.exhausted(target_s):
            return False
        self._move(target_s, cause)
        return True

    def catch_up(self, elsewhere_s: int, cause: Cause) -> bool:
        """Make up for the time spent outside the world, ``elsewhere_s`` in all; what was seen of it counts once.

        False when there was too much to run on the way; the next call makes up for the rest.
        """
        missed_s = elsewhere_s - made_up_s(self._draft)
        if missed_s <= 0:
            return True
        began_s = self._draft.now_s
        caught_up = self.advance(began_s + missed_s, cause)
        left_s = 0 if caught_up else missed_s - (self._draft.now_s - began_s)
        self._draft.save(cause, CLOCK, ELSEWHERE, elsewhere_s - left_s)
        return caught_up

    def run_next(self, target_s: int, cause: Cause) -> bool:
        """Run the next job that is due by ``target_s``, at its own time. False when there is none left to run."""
        due = [] if self.jobs_run >= MAX_JOBS else self._due(target_s)
        if not due:
            return False
        self._move(due[0].due_s, cause)
        self._run(due[0])
        self.jobs_run += 1
        return True

    def exhausted(self, target_s: int) -> bool:
        """Whether jobs are left that this call may not run any more."""
        return self.jobs_run >= MAX_JOBS and bool(self._due(target_s))

    def _due(self, target_s: int) -> list[JobRow]:
        return [job for job in pending(self._draft) if job.due_s <= min(target_s, CLOCK_END_S)]

    def _move(self, to_s: int, cause: Cause) -> None:
        to_s = min(to_s, CLOCK_END_S)
        if to_s > self._draft.now_s:
            self._draft.save(cause, CLOCK, NOW, to_s)

    def _run(self, job: JobRow) -> None:
        cause = Cause("job", job.job_id, job.kind)
        mark, state, error = self._draft.mark(), "done", ""
        try:
            self._kinds[job.kind].run(DraftState(self._draft, cause, self._kinds), **job.arguments)
        except Exception as failure:
            # A job is the world author's code, and one that fails must not take the call that met it along.
            self._draft.rollback(mark)
            state, error = "failed", str(failure) if isinstance(failure, Refused) else type(failure).__name__
            log.warning("job %s (%s) failed", job.job_id, job.kind, exc_info=failure)
        _end(self._draft, job, state, error)


def cancel(draft: Draft, job: JobRow) -> None:
    """Cancel a pending job."""
    _end(draft, job, "cancelled")
