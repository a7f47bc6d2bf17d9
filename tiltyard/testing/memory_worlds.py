"""A world store in memory: the fake of every database driver, with snapshots."""

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from schemas.world import LateWrite
from tiltyard.worlds.rows import Effect, Partition, RowKey
from tiltyard.worlds.store import Contents, Delivery, Namespace, NamespaceState, Overlay

_Collection = tuple[str, int, str, str]


class Tables(NamedTuple):
    """All tables; every value is immutable."""

    namespaces: dict[str, Namespace]
    rows: dict[_Collection, dict[str, Overlay]]
    deliveries: dict[tuple[str, int, str], Delivery]
    ledger: dict[tuple[str, int, int], Effect]
    late: dict[tuple[str, str, int, str], LateWrite]

    def copied(self) -> "Tables":
        rows = {collection: dict(bodies) for collection, bodies in self.rows.items()}
        return Tables(dict(self.namespaces), rows, dict(self.deliveries), dict(self.ledger), dict(self.late))


_ABSENT: Any = object()


class MemoryTx:
    """One transaction; it changes the tables in place and keeps what it needs to take that back."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._undo: list[tuple[dict[Any, Any], Any, Any]] = []

    def roll_back(self) -> None:
        for table, key, before in reversed(self._undo):
            if before is _ABSENT:
                table.pop(key, None)
            else:
                table[key] = before

    def _put(self, table: dict[Any, Any], key: Any, value: Any) -> None:
        self._undo.append((table, key, table.get(key, _ABSENT)))
        if value is _ABSENT:
            table.pop(key, None)
        else:
            table[key] = value

    def namespace(self, name: str) -> Namespace | None:
        return self._tables.namespaces.get(name)

    def owned_by(self, owner: str) -> Namespace | None:
        return next((one for one in self.namespaces() if one.owner == owner), None)

    def free_namespace(self) -> Namespace | None:
        return next((one for one in self.namespaces() if one.state is NamespaceState.FREE), None)

    def new_namespace(self) -> Namespace:
        namespace = Namespace(name=f"ns-{len(self._tables.namespaces) + 1:06d}")
        self.put_namespace(namespace)
        return namespace

    def namespaces(self) -> tuple[Namespace, ...]:
        return tuple(one for _, one in sorted(self._tables.namespaces.items()))

    def put_namespace(self, namespace: Namespace) -> None:
        self._put(self._tables.namespaces, namespace.name, namespace)

    def row(self, partition: Partition, row: RowKey) -> Overlay | None:
        return self._tables.rows.get((*partition, row.world, row.collection), {}).get(row.key)

    def rows(self, partition: Partition, world: str, collection: str) -> Mapping[str, Overlay]:
        return dict(self._tables.rows.get((*partition, world, collection), {}))

    def put_rows(self, partition: Partition, rows: Mapping[RowKey, Overlay]) -> None:
        for row, overlay in rows.items():
            collection = (*partition, row.world, row.collection)
            if collection not in self._tables.rows:
                self._put(self._tables.rows, collection, {})
            self._put(self._tables.rows[collection], row.key, overlay)

    def delivery(self, partition: Partition, delivery_id: str) -> Delivery | None:
        return self._tables.deliveries.get((*partition, delivery_id))

    def deliveries(self, partition: Partition) -> tuple[Delivery, ...]:
        found = [one for key, one in self._tables.deliveries.items() if key[:2] == partition]
        return tuple(sorted(found, key=lambda delivery: delivery.ordinal))

    def put_deliveries(self, partition: Partition, deliveries: Sequence[Delivery]) -> None:
        for delivery in deliveries:
            self._put(self._tables.deliveries, (*partition, delivery.delivery_id), delivery)

    def append(self, partition: Partition, effects: Sequence[Effect]) -> None:
        for effect in effects:
            self._put(self._tables.ledger, (*partition, effect.position), effect)

    def ledger(self, partition: Partition) -> tuple[Effect, ...]:
        found = [effect for key, effect in self._tables.ledger.items() if key[:2] == partition]
        return tuple(sorted(found, key=lambda effect: effect.position))

    def log_late(self, namespace: str, late: LateWrite, request_digest: str) -> None:
        key = (namespace, late.delivery_id, late.generation, request_digest)
        if key not in self._tables.late:
            self._put(self._tables.late, key, late)

    def late(self, partition: Partition) -> tuple[LateWrite, ...]:
        found = sorted((key, late) for key, late in self._tables.late.items() if (key[0], key[2]) == partition)
        return tuple(late for _, late in found)

    def purge(self, partition: Partition) -> None:
        for table in (self._tables.rows, self._tables.deliveries, self._tables.ledger):
            for key in [key for key in table if key[:2] == partition]:
                self._put(table, key, _ABSENT)

    def contents(self, namespace: str) -> Contents:
        rows = [
            (key[1], f"{key[2]}/{key[3]}/{row}")
            for key, bodies in self._tables.rows.items()
            for row in bodies
            if key[0] == namespace
        ]
        deliveries = [(key[1], key[2]) for key in self._tables.deliveries if key[0] == namespace]
        ledger = [(key[1], str(key[2])) for key in self._tables.ledger if key[0] == namespace]
        return Contents(tuple(sorted(rows)), tuple(sorted(deliveries)), tuple(sorted(ledger)))


class MemoryWorlds:
    """One transaction at a time."""

    def __init__(self) -> None:
        self._tables = Tables({}, {}, {}, {}, {})
        self._lock = threading.Lock()

    @contextmanager
    def transaction(self) -> Iterator[MemoryTx]:
        with self._lock:
            tx = MemoryTx(self._tables)
            try:
                yield tx
            except BaseException:
                tx.roll_back()
                raise

    def snapshot(self) -> Tables:
        """All that is stored, to be restored later or compared."""
        with self._lock:
            return self._tables.copied()

    def restore(self, tables: Tables) -> None:
        with self._lock:
            self._tables = tables.copied()
