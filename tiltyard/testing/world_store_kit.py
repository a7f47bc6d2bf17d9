"""What every world store must do: the conformance kit of drivers and fakes.

Subclass ``WorldStoreKit`` in a test module and give it a ``store`` fixture of an empty store.
"""

import threading
from dataclasses import replace

import pytest

from schemas.world import DeliveryReply, DrainReport, LateWrite, Lease, Shown
from tiltyard.testing.engine_bench import lease_request, owner
from tiltyard.worlds.leasing import owner_key
from tiltyard.worlds.rows import Cause, Effect, Partition, RowKey
from tiltyard.worlds.store import Contents, Delivery, Namespace, NamespaceState, OpenWait, Overlay, WorldStore

NOW, NEXT, OTHER = Partition("ns-000001", 1), Partition("ns-000001", 3), Partition("ns-000002", 1)

AWKWARD = ("a", "Z", "ä", "é", "😀", "\x00", "~", "a/b", " ", "\ufffd")
"""Keys that collations, encodings and separators like to get wrong."""

LEASE = Lease(
    namespace="ns-000001",
    generation=1,
    owner=owner("ep-1"),
    episode_id="ep-1",
    world="tally",
    template_digest="t",
    tools_digest="o",
    state_digest="s",
)

REPLY = DeliveryReply(
    delivery_id="d1",
    shown=Shown(status="ok", content={"ä": [1, 2.5, None, "\x00"]}),
    committed=True,
    first=1,
    last=2,
    fault="delay",
    now_s=2**40,
)


def effect(position: int, *, after: bytes | None = b"1", key: str = "a") -> Effect:
    cause = Cause("delivery", "d1", "add", "operation \x00 é")
    return Effect(position, cause, RowKey("tally", "tallies", key), None, after, 2**40)


def delivery(delivery_id: str, ordinal: int) -> Delivery:
    return Delivery(
        delivery_id,
        ordinal,
        "digest",
        "tool \x00 é",
        b'{"a":1}',
        None,
        OpenWait(started_at_s=0, target_s=2**40, first=1, jobs_run=3, fault="delay"),
    )


class WorldStoreKit:
    """The tests."""

    def test_namespaces_are_kept_whole(self, store: WorldStore) -> None:
        with store.transaction() as tx:
            assert tx.namespaces() == ()
            fresh = tx.new_namespace()
            assert (fresh.state, fresh.fence) == (NamespaceState.FREE, 0)
            whole = Namespace(
                name=fresh.name,
                state=NamespaceState.DRAINED,
                fence=4,
                lease_generation=3,
                owner=owner_key(owner("ep-1")),
                request=lease_request("ep-1"),
                lease=LEASE,
                position=7,
                deliveries=5,
                sealed_position=6,
                in_flight=2,
                drain=DrainReport(jobs_found=1),
                reason="r",
            )
            tx.put_namespace(whole)
            assert tx.namespace(fresh.name) == whole
        with store.transaction() as tx:
            assert tx.namespace(fresh.name) == whole
            assert tx.owned_by(owner_key(owner("ep-1"))) == whole
            assert tx.owned_by(owner_key(owner("ep-2"))) is None
            assert tx.free_namespace() is None
            assert tx.namespace("ns-999999") is None
            assert tx.new_namespace().name != fresh.name
            assert [one.name for one in tx.namespaces()] == sorted(one.name for one in tx.namespaces())

    def test_the_first_free_namespace_is_offered(self, store: WorldStore) -> None:
        with store.transaction() as tx:
            made = [tx.new_namespace() for _ in range(3)]
            tx.put_namespace(made[0].model_copy(update={"state": NamespaceState.QUARANTINED}))
            assert tx.free_namespace() == made[1]

    def test_rows_are_kept_by_generation_with_tombstones(self, store: WorldStore) -> None:
        rows = {RowKey("tally", "tallies", key): Overlay(key.encode()) for key in AWKWARD}
        with store.transaction() as tx:
            tx.put_rows(NOW, rows)
            tx.put_rows(
                NOW, {RowKey("tally", "tallies", "a"): Overlay(None), RowKey("tally", "~c", "a"): Overlay(b"0")}
            )
            tx.put_rows(NOW, {RowKey("other", "tallies", "b"): Overlay(b"0")})
        with store.transaction() as tx:
            assert tx.row(NOW, RowKey("tally", "tallies", "a")) == Overlay(None)
            assert tx.row(NOW, RowKey("tally", "tallies", "b")) is None
            assert tx.row(NEXT, RowKey("tally", "tallies", "Z")) is None
            assert tx.row(OTHER, RowKey("tally", "tallies", "Z")) is None
            expected = {row.key: overlay for row, overlay in rows.items()} | {"a": Overlay(None)}
            assert tx.rows(NOW, "tally", "tallies") == expected
            assert tx.rows(NEXT, "tally", "tallies") == {}

    def test_deliveries_are_kept_in_order_and_closed_in_place(self, store: WorldStore) -> None:
        opened = delivery("d1", 2)
        closed = replace(opened, reply=REPLY, wait=None)
        with store.transaction() as tx:
            tx.put_deliveries(NOW, [])
            tx.put_deliveries(NOW, [opened, delivery("d2", 1)])
            assert tx.delivery(NOW, "d1") == opened
            tx.put_deliveries(NOW, [closed])
            assert tx.delivery(NOW, "d1") == closed
        with store.transaction() as tx:
            assert tx.deliveries(NOW) == (delivery("d2", 1), closed)
            assert tx.delivery(NEXT, "d1") is None
            assert tx.deliveries(OTHER) == ()

    def test_the_ledger_is_kept_by_position(self, store: WorldStore) -> None:
        kept = [effect(n, after=None if n == 2 else b"1", key=AWKWARD[n % 10]) for n in range(1, 13)]
        with store.transaction() as tx:
            tx.append(NOW, kept[:5])
            tx.append(NOW, [])
            tx.append(NOW, kept[5:])
        with store.transaction() as tx:
            assert tx.ledger(NOW) == tuple(kept)
            assert tx.ledger(NEXT) == ()

    def test_late_writes_count_once_and_outlive_a_purge(self, store: WorldStore) -> None:
        late = LateWrite(delivery_id="d1", tool="tool \x00", generation=1, current_generation=2)
        with store.transaction() as tx:
            tx.log_late("ns-000001", late, "digest")
            tx.log_late("ns-000001", late.model_copy(update={"current_generation": 3}), "digest")
            tx.log_late("ns-000001", late, "another digest")
            tx.log_late("ns-000002", late.model_copy(update={"delivery_id": "d0"}), "digest")
        with store.transaction() as tx:
            tx.purge(NOW)
            assert tx.late(NOW) == (late, late)
            assert [one.delivery_id for one in tx.late(OTHER)] == ["d0"]
            assert tx.late(NEXT) == ()

    def test_a_purge_empties_one_generation_only(self, store: WorldStore) -> None:
        with store.transaction() as tx:
            for partition in (NOW, NEXT, OTHER):
                tx.put_rows(partition, {RowKey("tally", "tallies", "a"): Overlay(None)})
                tx.put_deliveries(partition, [delivery("d1", 1)])
                tx.append(partition, [effect(1)])
            whole = tx.contents("ns-000001")
            assert (len(whole.rows), len(whole.deliveries), len(whole.ledger)) == (2, 2, 2)
            tx.purge(NOW)
        with store.transaction() as tx:
            assert tx.contents("ns-000001") == Contents(((3, "tally/tallies/a"),), ((3, "d1"),), ((3, "1"),))
            tx.purge(NEXT)
            assert tx.contents("ns-000001") == Contents()
            assert tx.contents("ns-000002") != Contents()

    def test_a_transaction_that_raises_takes_everything_back(self, store: WorldStore) -> None:
        with store.transaction() as tx:
            before = tx.new_namespace()
            tx.put_rows(NOW, {RowKey("tally", "tallies", "a"): Overlay(b"1")})

        def fail() -> None:
            with store.transaction() as tx:
                tx.put_namespace(before.model_copy(update={"fence": 9}))
                tx.put_rows(NOW, {RowKey("tally", "tallies", key): Overlay(b"2") for key in "ab"})
                tx.put_deliveries(NOW, [delivery("d1", 1)])
                tx.append(NOW, [effect(1)])
                tx.log_late(
                    "ns-000001", LateWrite(delivery_id="d", tool="t", generation=1, current_generation=2), ""
                )
                tx.purge(NOW)
                raise RuntimeError("taken back")

        with pytest.raises(RuntimeError, match="taken back"):
            fail()
        with store.transaction() as tx:
            assert tx.namespaces() == (before,)
            assert tx.rows(NOW, "tally", "tallies") == {"a": Overlay(b"1")}
            assert (tx.deliveries(NOW), tx.ledger(NOW), tx.late(NOW)) == ((), (), ())

    def test_transactions_are_alone_with_what_they_have_read(self, store: WorldStore) -> None:
        with store.transaction() as tx:
            name = tx.new_namespace().name

        def count() -> None:
            for _ in range(10):
                with store.transaction() as tx:
                    namespace = tx.namespace(name)
                    assert namespace is not None
                    tx.put_namespace(namespace.model_copy(update={"fence": namespace.fence + 1}))

        threads = [threading.Thread(target=count) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        with store.transaction() as tx:
            namespace = tx.namespace(name)
            assert namespace is not None
            assert namespace.fence == 40
