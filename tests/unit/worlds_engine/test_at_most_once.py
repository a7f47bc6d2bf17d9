"""I1: a tool call takes effect at most once, whatever crashes when."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.stores.database import open_database
from infra.stores.world_store import SqlWorlds
from schemas.world import DeliveryReply, Facts
from tiltyard.testing.crashing_worlds import CrashingWorlds, Moment, ProcessDied
from tiltyard.testing.engine_bench import Bench
from tiltyard.testing.memory_worlds import MemoryWorlds
from tiltyard.testing.tally_world import TALLY
from tiltyard.worlds.engine import Engine
from tiltyard.worlds.store import WorldStore

MOMENTS: tuple[Moment, ...] = ("before commit", "after commit")


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[WorldStore]:
    if request.param == "memory":
        yield MemoryWorlds()
        return
    database = open_database(f"sqlite:///{tmp_path}/worlds.db")
    yield SqlWorlds(database)
    database.close()


def play(bench: Bench) -> list[DeliveryReply]:
    """One of everything that can be cut short."""
    return [
        bench.call("tick", delivery="d1", name="apples", every_s=100, times=4),
        bench.call("add", delivery="d2", name="apples", amount=5, operation_id="op"),
        bench.call("wait", delivery="d3", seconds=250),
        bench.call("add", delivery="d4", name="apples", amount=5, operation_id="op"),
        bench.call("remove", delivery="d5", name="pears"),
        bench.call("wait", delivery="d6", seconds=1_000),
    ]


def check(facts: Facts) -> None:
    """Every ledger row names one recorded delivery or one job, and no delivery has two records."""
    recorded = [one.delivery_id for one in facts.deliveries]
    assert len(set(recorded)) == len(recorded)
    jobs = {job.job_id for job in facts.jobs}
    assert [row.position for row in facts.ledger] == list(range(1, len(facts.ledger) + 1))
    for row in facts.ledger:
        assert row.cause in (jobs if row.cause_kind == "job" else set(recorded))


def undisturbed() -> tuple[list[DeliveryReply], Facts, int]:
    counting = CrashingWorlds(MemoryWorlds(), 0, "after commit")
    bench = Bench(store=counting)
    before = counting.transactions
    replies = play(bench)
    return replies, bench.finish(), counting.transactions - before


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_crash_at_any_transaction_leaves_no_trace(moment: Moment, store: WorldStore) -> None:
    """The server dies at each of its transactions in turn, is started anew, and the call is sent again."""
    replies, facts, transactions = undisturbed()
    assert transactions > 12
    for nth in range(1, transactions - 2):
        bench = Bench(store=store)
        bench.engine = Engine({"tally": TALLY}, CrashingWorlds(store, nth, moment))
        with pytest.raises(ProcessDied):
            play(bench)
        bench.again()
        assert play(bench) == replies
        found = bench.finish()
        check(found)
        same = {"namespace": facts.namespace, "generation": facts.generation}
        assert found.model_copy(update=same) == facts
        assert bench.engine.recycle(bench.lease.namespace, bench.lease.generation)


def test_duplicates_at_once_on_many_threads_take_effect_once(store: WorldStore) -> None:
    bench = Bench(store=store)
    replies: list[list[DeliveryReply]] = [[] for _ in range(6)]
    start = threading.Barrier(len(replies))

    def send(into: list[DeliveryReply]) -> None:
        start.wait()
        into.extend(play(bench))

    threads = [threading.Thread(target=send, args=(into,)) for into in replies]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(one == replies[0] for one in replies)
    facts = bench.finish()
    check(facts)
    assert len(facts.deliveries) == 6
    assert [row.cause for row in facts.ledger if row.key == "pears"] == ["d5"]
    apples = next(change.after for change in facts.changes if change.key == "apples")
    assert apples == {"name": "apples", "total": 9, "amounts": [5, 1, 1, 1, 1]}


def test_the_check_is_not_blind() -> None:
    facts = undisturbed()[1]
    check(facts)
    for broken in (
        {"deliveries": facts.deliveries[1:]},
        {"deliveries": (*facts.deliveries, facts.deliveries[0])},
        {"jobs": ()},
        {"ledger": facts.ledger[1:]},
    ):
        with pytest.raises(AssertionError):
            check(facts.model_copy(update=broken))
