"""I4: a namespace is used again only when nothing of its last episode is left. Each part, sabotaged in turn."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from schemas.world import LateWrite, Lease
from tiltyard.errors import LateWrite as LateWriteError
from tiltyard.errors import NotPristine
from tiltyard.testing.caching_reader import CachingReader
from tiltyard.testing.engine_bench import Bench, delivery_request, lease_request
from tiltyard.testing.memory_worlds import MemoryTx, MemoryWorlds
from tiltyard.testing.tally_world import TALLY
from tiltyard.worlds.custody import Custody
from tiltyard.worlds.draft import Draft
from tiltyard.worlds.engine import Engine
from tiltyard.worlds.leasing import Leasing
from tiltyard.worlds.rows import Partition
from tiltyard.worlds.store import Namespace
from tiltyard.worlds.template_reader import TemplateReader


def end(bench: Bench) -> bool:
    bench.engine.seal(bench.lease.namespace, bench.lease.generation)
    bench.engine.drain(bench.lease.namespace, bench.lease.generation)
    return bench.engine.recycle(bench.lease.namespace, bench.lease.generation)


def next_lease(bench: Bench) -> Lease:
    return bench.engine.lease(lease_request("ep-2"))


def used(bench: Bench) -> Bench:
    """An episode that left a bit of everything."""
    bench.call("add", name="plums", operation_id="op")
    bench.call("remove", name="pears")
    bench.call("add_later", name="plums", after_s=1_000)
    bench.call("wait", seconds=10)
    return bench


def returned_with(table: str) -> Bench:
    """A bench whose namespace was given back, and then the rows of one table appeared again."""
    store = MemoryWorlds()
    bench = used(Bench(store=store))
    kept = getattr(store.snapshot(), table)
    assert end(bench)
    store.restore(store.snapshot()._replace(**{table: kept}))
    return bench


class TestWholeReset:
    def test_the_next_episode_finds_the_namespace_as_new(self) -> None:
        bench = used(Bench())
        assert end(bench)
        lease = next_lease(bench)
        assert (lease.namespace, lease.state_digest) == (bench.lease.namespace, bench.lease.state_digest)
        bench.engine.seal(lease.namespace, lease.generation)
        bench.engine.drain(lease.namespace, lease.generation)
        facts = bench.engine.facts(lease.namespace, lease.generation)
        assert (facts.now_s, facts.deliveries, facts.ledger, facts.receipts, facts.jobs) == (0, (), (), (), ())

    def test_a_late_writer_changes_nothing_in_a_recycled_namespace(self) -> None:
        """I3."""
        bench = used(Bench())
        assert end(bench)
        lease = next_lease(bench)
        for _ in range(2):
            with pytest.raises(LateWriteError):
                bench.call("add", name="apples", delivery="late")
        assert isinstance(bench.store, MemoryWorlds)
        with bench.store.transaction() as tx:
            assert tx.contents(lease.namespace).rows == ()
            assert tx.late(Partition(lease.namespace, bench.lease.generation)) == (
                LateWrite(
                    delivery_id="late",
                    tool="add",
                    generation=bench.lease.generation,
                    current_generation=lease.generation,
                ),
            )

    def test_its_cost_does_not_grow_with_the_template(self) -> None:
        """The work of lease and reset is counted in rows read from the template: none, whatever its size."""
        reads: list[str] = []

        class CountingReader(CachingReader):
            def load(self, collection: str, key: str) -> object:  # type: ignore[override]  # counts, and forwards
                reads.append(key)
                return super().load(collection, key)

        engine = Engine({"tally": TALLY}, MemoryWorlds(), reader=CountingReader)
        bench = Bench(engine=engine)
        bench.call("add", name="apples")
        assert end(bench)
        next_lease(bench)
        assert len(reads) < 10


class KeepsGeneration(MemoryTx):
    """Writes namespaces without their new generation."""

    def put_namespace(self, namespace: Namespace) -> None:
        before = self.namespace(namespace.name)
        fence = before.fence if before else namespace.fence
        super().put_namespace(namespace.model_copy(update={"fence": fence}))


class KeepsRows(MemoryTx):
    """Forgets to delete."""

    def purge(self, partition: Partition) -> None:
        return None


class SabotagedWorlds(MemoryWorlds):
    """A memory store with transactions of another class once ``tx_type`` is set."""

    tx_type: type[MemoryTx] = MemoryTx

    @contextmanager
    def transaction(self) -> Iterator[MemoryTx]:
        with super().transaction() as tx:
            tx.__class__ = self.tx_type
            yield tx


class TestSabotage:
    def test_a_store_that_keeps_the_generation_at_the_seal(self) -> None:
        store = SabotagedWorlds()
        bench = used(Bench(store=store))
        store.tx_type = KeepsGeneration
        assert not end(bench)
        store.tx_type = MemoryTx
        assert next_lease(bench).namespace != bench.lease.namespace

    def test_a_store_that_keeps_the_generation_at_the_lease(self) -> None:
        store = SabotagedWorlds()
        bench = used(Bench(store=store))
        assert end(bench)
        store.tx_type = KeepsGeneration
        with pytest.raises(NotPristine):
            next_lease(bench)

    def test_a_store_that_keeps_old_rows(self) -> None:
        store = SabotagedWorlds()
        bench = used(Bench(store=store))
        store.tx_type = KeepsRows
        assert not end(bench)
        assert next_lease(bench).namespace != bench.lease.namespace

    @pytest.mark.parametrize("table", ["rows", "deliveries", "ledger"])
    def test_rows_that_appear_in_a_free_namespace(self, table: str) -> None:
        bench = returned_with(table)
        assert next_lease(bench).namespace != bench.lease.namespace

    @pytest.mark.parametrize("table", ["rows", "deliveries", "ledger"])
    def test_a_lease_carries_the_digest_of_what_was_found(self, table: str) -> None:
        """With the check left out, the lease itself shows that its namespace was not pristine."""

        class Careless(Leasing):
            def pristine(self, found: str, reader: TemplateReader) -> bool:
                return True

        bench = returned_with(table)
        bench.engine.leasing = Careless(bench.store, bench.engine.desk)
        lease = next_lease(bench)
        assert lease.namespace == bench.lease.namespace
        assert lease.state_digest != bench.lease.state_digest

    def test_a_drain_that_is_left_out(self) -> None:
        bench = used(Bench())
        bench.engine.seal(bench.lease.namespace, bench.lease.generation)
        assert not bench.engine.recycle(bench.lease.namespace, bench.lease.generation)
        assert next_lease(bench).namespace != bench.lease.namespace

    def test_a_seal_that_is_left_out(self) -> None:
        bench = used(Bench())
        assert not bench.engine.recycle(bench.lease.namespace, bench.lease.generation)
        with pytest.raises(LateWriteError):
            bench.call("add", name="apples")

    def test_a_drain_that_leaves_a_job_pending(self) -> None:
        class Lazy(Custody):
            def cancel_jobs(self, draft: Draft) -> None:
                return None

        bench = used(Bench())
        engine = bench.engine
        engine.custody = Lazy(bench.store, engine.desk, engine.in_flight)
        assert not end(bench)
        assert next_lease(bench).namespace != bench.lease.namespace

    def test_a_call_that_is_still_in_flight(self) -> None:
        bench = Bench(engine=Engine({"tally": TALLY}, MemoryWorlds(), drain_limit_s=0))
        with bench.engine.in_flight.call(bench.lease.namespace):
            bench.engine.seal(bench.lease.namespace, bench.lease.generation)
            report = bench.engine.drain(bench.lease.namespace, bench.lease.generation)
            assert (report.in_flight, report.empty) == (1, False)
            assert not bench.engine.recycle(bench.lease.namespace, bench.lease.generation)
        assert next_lease(bench).namespace != bench.lease.namespace

    def test_a_tool_that_changes_a_cached_template(self) -> None:
        bench = Bench(engine=Engine({"tally": TALLY}, MemoryWorlds(), reader=CachingReader))
        bench.call("scribble", name="apples")
        assert bench.total("apples") == 1_000_000, "the sabotage works"
        assert not end(bench)
        lease = next_lease(bench)
        assert lease.namespace != bench.lease.namespace
        clean = bench.engine.call(delivery_request(lease, "d1", "read", name="apples"))
        assert clean.shown.content == {"name": "apples", "total": 0, "amounts": []}

    def test_a_template_that_was_changed_by_a_neighbour_is_not_leased(self) -> None:
        bench = Bench(engine=Engine({"tally": TALLY}, MemoryWorlds(), reader=CachingReader))
        bench.call("scribble", name="apples")
        with pytest.raises(NotPristine, match="changed in memory"):
            next_lease(bench)
        assert next_lease(bench).template_digest == bench.lease.template_digest

    def test_a_template_that_is_another_one_after_a_restart(self) -> None:
        bench = used(Bench())
        other = TALLY.of(
            "tally",
            "Tallies that start elsewhere.",
            tuple(TALLY.tools.values()),
            lambda name, params: TALLY.template("jobs", params),
            tuple(TALLY.jobs.values()),
        )
        bench.engine = Engine({"tally": other}, bench.store)
        with pytest.raises(NotPristine, match="has changed since"):
            bench.call("add", name="apples")
        bench.engine.quarantine(bench.lease.namespace, bench.lease.generation, "changed template")
        assert next_lease(bench).namespace != bench.lease.namespace


def test_a_drain_waits_for_calls_in_flight() -> None:
    bench = Bench()
    flying = bench.engine.in_flight
    with flying.call(bench.lease.namespace):
        assert not flying.wait_out(bench.lease.namespace, 0)
    assert flying.wait_out(bench.lease.namespace, 0)
    assert flying.wait_out("another", 0)
