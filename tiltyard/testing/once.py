"""I1 over the facts of an episode: every ledger row has exactly one cause, and one that can have made it."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from schemas.base import JsonValue
from schemas.world import DeliveryRecord, Facts, Job, LedgerRow
from tiltyard.worlds.rows import JOBS


def flaws(facts: Facts) -> tuple[str, ...]:
    """What contradicts I1; empty when nothing does.

    * No delivery and no job has two records, and ledger positions are 1, 2, 3 …
    * Entities and new work are of a delivery that says it committed, or of a job that is done.
    * A delivery's rows lie within the range that its reply names; one that committed has at least one.
    * Each image continues the last one of its row: no change is lost, or made twice.
    """
    deliveries = {record.delivery_id: record for record in facts.deliveries}
    jobs = {job.job_id: job for job in facts.jobs}
    found = [
        *(f"the delivery {name} has several records" for name in _several(deliveries, facts.deliveries)),
        *(f"the job {name} has several records" for name in _several(jobs, facts.jobs)),
        *(f"row {row.position}: {why}" for row in facts.ledger if (why := _cause_flaw(row, deliveries, jobs))),
        *_order_flaws(facts.ledger),
        *_empty_commits(facts),
    ]
    return tuple(found)


def _several(by_id: Mapping[str, object], records: Iterable[DeliveryRecord] | Iterable[Job]) -> list[str]:
    ids = Counter(one.delivery_id if isinstance(one, DeliveryRecord) else one.job_id for one in records)
    return [name for name in by_id if ids[name] > 1]


def _cause_flaw(row: LedgerRow, deliveries: Mapping[str, DeliveryRecord], jobs: Mapping[str, Job]) -> str:
    if row.cause_kind == "job":
        job = jobs.get(row.cause)
        if job is None or job.kind != row.tool:
            return f"there is no job {row.cause} of kind {row.tool}"
        return f"the job {row.cause} is {job.state}" if _counts(row) and job.state != "done" else ""
    record = deliveries.get(row.cause)
    if record is None or record.tool != row.tool:
        return f"there is no delivery {row.cause} of {row.tool}"
    if record.reply is None:
        return f"{row.cause} has no outcome" if _counts(row) else ""
    if not record.reply.first <= row.position <= record.reply.last:
        return f"{row.cause} says that its rows are {record.reply.first} to {record.reply.last}"
    return f"{row.cause} says that it changed nothing" if _counts(row) and not record.reply.committed else ""


def _counts(row: LedgerRow) -> bool:
    """Whether a row is an effect: an entity, or work that was put off until later."""
    return not row.system or (row.collection == JOBS and row.cause_kind == "delivery")


def _order_flaws(ledger: Iterable[LedgerRow]) -> Iterator[str]:
    images: dict[tuple[str, str, str], JsonValue] = {}
    for expected, row in enumerate(ledger, start=1):
        if row.position != expected:
            yield f"row {row.position} stands where row {expected} belongs"
        place = (row.world, row.collection, row.key)
        if place in images and images[place] != row.before:
            yield f"row {row.position} does not continue the last image of {'/'.join(place)}"
        images[place] = row.after


def _empty_commits(facts: Facts) -> Iterator[str]:
    effective = {row.cause for row in facts.ledger if row.cause_kind == "delivery" and _counts(row)}
    for record in facts.deliveries:
        if record.reply is not None and record.reply.committed and record.delivery_id not in effective:
            yield f"the delivery {record.delivery_id} says that it changed something, and no row does"
