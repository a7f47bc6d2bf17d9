"""The check of I1 finds nothing in true facts, and each forgery in others."""

from collections.abc import Callable

import pytest

from schemas.world import DeliveryRecord, Facts, LedgerRow
from tiltyard.testing.engine_bench import Bench
from tiltyard.testing.once import flaws


def told() -> Facts:
    """Effects, a refusal, a read, work that came due, work that was cancelled, and a wait."""
    bench = Bench()
    bench.call("add", delivery="added", name="plums", operation_id="op")
    bench.call("add", delivery="repeated", name="plums", operation_id="op")
    bench.call("remove", delivery="refused", name="cherries")
    bench.call("remove", delivery="removed", name="pears")
    bench.call("read", delivery="read", name="apples")
    bench.call("add_later", delivery="soon", name="plums", after_s=5)
    bench.call("add_later", delivery="never", name="plums", after_s=500)
    bench.call("wait", delivery="waited", seconds=10)
    return bench.finish()


FACTS = told()


def row_of(cause: str, collection: str = "tallies") -> LedgerRow:
    return next(row for row in FACTS.ledger if (row.cause, row.collection) == (cause, collection))


def with_row(row: LedgerRow, **changes: object) -> Facts:
    forged = row.model_copy(update=changes)
    return FACTS.model_copy(update={"ledger": tuple(forged if one is row else one for one in FACTS.ledger)})


def with_delivery(name: str, **changes: object) -> Facts:
    def forged(record: DeliveryRecord) -> DeliveryRecord:
        assert record.reply is not None
        return record.model_copy(update={"reply": record.reply.model_copy(update=changes)})

    records = tuple(forged(one) if one.delivery_id == name else one for one in FACTS.deliveries)
    return FACTS.model_copy(update={"deliveries": records})


def with_effect(cause: str, tool: str) -> Facts:
    """One more row at the end, laid to a cause that did not make it."""
    added = row_of("added")
    more = added.model_copy(
        update={
            "position": len(FACTS.ledger) + 1,
            "key": "forged",
            "cause": cause,
            "tool": tool,
            "cause_kind": "job" if cause.startswith("job") else "delivery",
        }
    )
    return FACTS.model_copy(update={"ledger": (*FACTS.ledger, more)})


def recorded_twice(table: str) -> Facts:
    return FACTS.model_copy(update={table: (*getattr(FACTS, table), getattr(FACTS, table)[0])})


FORGERIES: dict[str, tuple[Callable[[], Facts], str]] = {
    "a delivery with two records": (lambda: recorded_twice("deliveries"), "added has several records"),
    "a job with two records": (lambda: recorded_twice("jobs"), "job-000001 has several records"),
    "a row twice": (lambda: recorded_twice("ledger"), "stands where row"),
    "a row of no delivery": (lambda: with_row(row_of("added"), cause="nobody"), "no delivery nobody"),
    "a row of another tool": (lambda: with_row(row_of("added"), tool="remove"), "no delivery added of remove"),
    "a row of no job": (lambda: with_row(row_of("job-000001"), cause="job-9"), "no job job-9"),
    "a job's row that is said to be a delivery's": (
        lambda: with_row(row_of("job-000001"), cause_kind="delivery"),
        "no delivery job-000001",
    ),
    "an effect of a refused call": (lambda: with_row(row_of("removed"), cause="refused"), "refused says that"),
    "an effect of a wait": (
        lambda: with_row(row_of("job-000001"), cause_kind="delivery", cause="waited", tool="wait"),
        "waited says that it changed nothing",
    ),
    "an effect of a cancelled job": (lambda: with_effect("job-000002", "add_due"), "job-000002 is cancelled"),
    "an effect after the reply": (lambda: with_effect("added", "add"), "added says that its rows are"),
    "a commit that is denied": (lambda: with_delivery("added", committed=False), "added says that it changed noth"),
    "work put off by a call that denies it": (
        lambda: with_delivery("never", committed=False),
        "never says that it changed nothing",
    ),
    "a commit without an effect": (lambda: with_delivery("read", committed=True), "read says that it changed some"),
    "a change that is lost": (lambda: with_row(row_of("job-000001"), before=None), "does not continue"),
}


def test_true_facts_have_no_flaws() -> None:
    assert flaws(FACTS) == ()
    assert {job.state for job in FACTS.jobs} == {"done", "cancelled"}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_a_forgery_is_found(forgery: str) -> None:
    forge, said = FORGERIES[forgery]
    found = flaws(forge())
    assert any(said in flaw for flaw in found), found


def test_an_open_wait_may_have_moved_the_clock_and_nothing_else() -> None:
    def opened(record: DeliveryRecord) -> DeliveryRecord:
        return record.model_copy(update={"reply": None}) if record.delivery_id == "waited" else record

    open_facts = FACTS.model_copy(update={"deliveries": tuple(map(opened, FACTS.deliveries))})
    assert flaws(open_facts) == ()
    row = row_of("job-000001")
    forged = row.model_copy(update={"cause_kind": "delivery", "cause": "waited", "tool": "wait"})
    ledger = tuple(forged if one is row else one for one in FACTS.ledger)
    assert any("waited has no outcome" in flaw for flaw in flaws(open_facts.model_copy(update={"ledger": ledger})))
