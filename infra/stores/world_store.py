"""The world engine's store on SQL tables."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, Table, delete, func, insert, select
from sqlalchemy.exc import OperationalError
from sqlmodel import SQLModel

from infra.stores import world_tables
from infra.stores.database import Database
from infra.stores.world_records import (
    delivery_from,
    delivery_values,
    effect_from,
    effect_values,
    late_from,
    namespace_from,
    namespace_values,
)
from schemas.world import LateWrite
from tiltyard.errors import WorldUnreachable
from tiltyard.worlds.rows import Effect, Partition, RowKey
from tiltyard.worlds.store import Contents, Delivery, Namespace, NamespaceState, Overlay


def _table(model: type[SQLModel]) -> Table:
    return SQLModel.metadata.tables[str(model.__tablename__)]


NAMESPACE = _table(world_tables.NamespaceTable)
ROW = _table(world_tables.RowTable)
DELIVERY = _table(world_tables.DeliveryTable)
LEDGER = _table(world_tables.LedgerTable)
LATE = _table(world_tables.LateTable)

PURGED = (ROW, DELIVERY, LEDGER)
"""Tables that hold a generation's data."""


class SqlWorldTx:
    """One transaction, in statements that every SQL database has: rows are replaced by delete and insert."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def namespace(self, name: str) -> Namespace | None:
        return self._held(select(NAMESPACE).where(NAMESPACE.c.name == name).with_for_update())

    def owned_by(self, owner: str) -> Namespace | None:
        return self._held(select(NAMESPACE).where(NAMESPACE.c.owner == owner).with_for_update())

    def free_namespace(self) -> Namespace | None:
        free = select(NAMESPACE).where(NAMESPACE.c.state == NamespaceState.FREE.value)
        return self._held(free.order_by(NAMESPACE.c.name).limit(1).with_for_update(skip_locked=True))

    def new_namespace(self) -> Namespace:
        known = self._connection.execute(select(func.count()).select_from(NAMESPACE)).scalar_one()
        namespace = Namespace(name=f"ns-{known + 1:06d}")
        self.put_namespace(namespace)
        return namespace

    def namespaces(self) -> tuple[Namespace, ...]:
        found = map(namespace_from, self._rows(select(NAMESPACE)))
        return tuple(sorted(found, key=lambda namespace: namespace.name))

    def put_namespace(self, namespace: Namespace) -> None:
        self._replace(NAMESPACE, {"name": namespace.name}, namespace_values(namespace))

    def row(self, partition: Partition, row: RowKey) -> Overlay | None:
        found = self._rows(select(ROW.c.body).where(*_equal(ROW, {**partition._asdict(), **row._asdict()})))
        return next((Overlay(one["body"]) for one in found), None)

    def rows(self, partition: Partition, world: str, collection: str) -> Mapping[str, Overlay]:
        key = {**partition._asdict(), "world": world, "collection": collection}
        found = self._rows(select(ROW.c.key, ROW.c.body).where(*_equal(ROW, key)))
        return {one["key"]: Overlay(one["body"]) for one in found}

    def put_rows(self, partition: Partition, rows: Mapping[RowKey, Overlay]) -> None:
        for row, overlay in rows.items():
            self._replace(ROW, {**partition._asdict(), **row._asdict()}, {"body": overlay.body})

    def delivery(self, partition: Partition, delivery_id: str) -> Delivery | None:
        key = {**partition._asdict(), "delivery_id": delivery_id}
        return next(map(delivery_from, self._rows(select(DELIVERY).where(*_equal(DELIVERY, key)))), None)

    def deliveries(self, partition: Partition) -> tuple[Delivery, ...]:
        found = select(DELIVERY).where(*_equal(DELIVERY, partition._asdict())).order_by(DELIVERY.c.ordinal)
        return tuple(map(delivery_from, self._rows(found)))

    def put_delivery(self, partition: Partition, delivery: Delivery) -> None:
        key = {**partition._asdict(), "delivery_id": delivery.delivery_id}
        self._replace(DELIVERY, key, delivery_values(delivery))

    def append(self, partition: Partition, effects: Sequence[Effect]) -> None:
        if effects:
            values = [{**partition._asdict(), **effect_values(effect)} for effect in effects]
            self._connection.execute(insert(LEDGER), values)

    def ledger(self, partition: Partition) -> tuple[Effect, ...]:
        found = select(LEDGER).where(*_equal(LEDGER, partition._asdict())).order_by(LEDGER.c.position)
        return tuple(map(effect_from, self._rows(found)))

    def log_late(self, namespace: str, late: LateWrite, request_digest: str) -> None:
        values = {"namespace": namespace, "request_digest": request_digest, **late.model_dump()}
        key = {column.name: values[column.name] for column in LATE.primary_key}
        if not self._rows(select(LATE.c.tool).where(*_equal(LATE, key))):
            self._connection.execute(insert(LATE), values)

    def late(self, partition: Partition) -> tuple[LateWrite, ...]:
        found = self._rows(select(LATE).where(*_equal(LATE, partition._asdict())))
        return tuple(map(late_from, sorted(found, key=lambda one: (one["delivery_id"], one["request_digest"]))))

    def purge(self, partition: Partition) -> None:
        for table in PURGED:
            self._connection.execute(delete(table).where(*_equal(table, partition._asdict())))

    def contents(self, namespace: str) -> Contents:
        def found(table: Table, *names: str) -> tuple[tuple[int, str], ...]:
            rows = self._rows(select(table).where(table.c.namespace == namespace))
            return tuple(sorted((one["generation"], "/".join(str(one[name]) for name in names)) for one in rows))

        return Contents(
            rows=found(ROW, "world", "collection", "key"),
            deliveries=found(DELIVERY, "delivery_id"),
            ledger=found(LEDGER, "position"),
        )

    def _rows(self, statement: Select[Any]) -> list[Mapping[str, Any]]:
        return [dict(row) for row in self._connection.execute(statement).mappings()]

    def _held(self, statement: Select[Any]) -> Namespace | None:
        return next(map(namespace_from, self._rows(statement)), None)

    def _replace(self, table: Table, key: Mapping[str, Any], values: Mapping[str, Any]) -> None:
        self._connection.execute(delete(table).where(*_equal(table, key)))
        self._connection.execute(insert(table), {**key, **values})


def _equal(table: Table, key: Mapping[str, Any]) -> list[ColumnElement[bool]]:
    return [table.c[name] == value for name, value in key.items()]


class SqlWorlds:
    """``WorldStore`` on a database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @contextmanager
    def transaction(self) -> Iterator[SqlWorldTx]:
        try:
            with self._database.transaction() as session:
                yield SqlWorldTx(session.connection())
        except OperationalError as error:
            raise WorldUnreachable(f"the world's database failed: {error.orig}") from error
