"""The world engine's store on SQL tables."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, Select, Table, delete, func, insert, select
from sqlalchemy.exc import OperationalError

from infra.stores import world_tables
from infra.stores.database import Database
from infra.stores.statements import equal, rows_of, table_of
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

NAMESPACE = table_of(world_tables.NamespaceTable)
ROW = table_of(world_tables.RowTable)
DELIVERY = table_of(world_tables.DeliveryTable)
LEDGER = table_of(world_tables.LedgerTable)
LATE = table_of(world_tables.LateTable)

FREE = select(NAMESPACE).where(NAMESPACE.c.state == NamespaceState.FREE.value).order_by(NAMESPACE.c.name).limit(1)
HOLD_FREE = FREE.with_for_update(skip_locked=True)
HOLD_BY_NAME = select(NAMESPACE).where(*equal(NAMESPACE.c.name)).with_for_update()
HOLD_BY_OWNER = select(NAMESPACE).where(*equal(NAMESPACE.c.owner)).with_for_update()
COUNT_NAMESPACES = select(func.count()).select_from(NAMESPACE)
ONE_ROW = select(ROW.c.body).where(*equal(*ROW.primary_key))
COLLECTION = select(ROW.c.key, ROW.c.body).where(
    *equal(ROW.c.namespace, ROW.c.generation, ROW.c.world, ROW.c.collection)
)
ONE_DELIVERY = select(DELIVERY).where(*equal(*DELIVERY.primary_key))
ONE_LATE = select(LATE).where(*equal(*LATE.primary_key))
PARTITION = {
    table: select(table).where(*equal(table.c.namespace, table.c.generation)) for table in (DELIVERY, LEDGER, LATE)
}
PURGE = tuple(
    delete(table).where(*equal(table.c.namespace, table.c.generation)) for table in (ROW, DELIVERY, LEDGER)
)
REPLACE = {
    table: (delete(table).where(*equal(*table.primary_key)), insert(table)) for table in (NAMESPACE, ROW, DELIVERY)
}


class SqlWorldTx:
    """One transaction, in statements that every SQL database has: rows are replaced by delete and insert."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def namespace(self, name: str) -> Namespace | None:
        return self._held(HOLD_BY_NAME, name=name)

    def owned_by(self, owner: str) -> Namespace | None:
        return self._held(HOLD_BY_OWNER, owner=owner)

    def free_namespace(self) -> Namespace | None:
        return self._held(HOLD_FREE)

    def new_namespace(self) -> Namespace:
        known = self._connection.execute(COUNT_NAMESPACES).scalar_one()
        namespace = Namespace(name=f"ns-{known + 1:06d}")
        self.put_namespace(namespace)
        return namespace

    def namespaces(self) -> tuple[Namespace, ...]:
        found = map(namespace_from, self._rows(select(NAMESPACE)))
        return tuple(sorted(found, key=lambda namespace: namespace.name))

    def put_namespace(self, namespace: Namespace) -> None:
        self._replace(NAMESPACE, [namespace_values(namespace)])

    def row(self, partition: Partition, row: RowKey) -> Overlay | None:
        found = self._rows(ONE_ROW, **partition._asdict(), **row._asdict())
        return next((Overlay(one["body"]) for one in found), None)

    def rows(self, partition: Partition, world: str, collection: str) -> Mapping[str, Overlay]:
        found = self._rows(COLLECTION, **partition._asdict(), world=world, collection=collection)
        return {one["key"]: Overlay(one["body"]) for one in found}

    def put_rows(self, partition: Partition, rows: Mapping[RowKey, Overlay]) -> None:
        within = partition._asdict()
        self._replace(ROW, [{**within, **row._asdict(), "body": one.body} for row, one in rows.items()])

    def delivery(self, partition: Partition, delivery_id: str) -> Delivery | None:
        found = self._rows(ONE_DELIVERY, **partition._asdict(), delivery_id=delivery_id)
        return next(map(delivery_from, found), None)

    def deliveries(self, partition: Partition) -> tuple[Delivery, ...]:
        found = map(delivery_from, self._rows(PARTITION[DELIVERY], **partition._asdict()))
        return tuple(sorted(found, key=lambda delivery: delivery.ordinal))

    def put_deliveries(self, partition: Partition, deliveries: Sequence[Delivery]) -> None:
        self._replace(DELIVERY, [{**partition._asdict(), **delivery_values(delivery)} for delivery in deliveries])

    def append(self, partition: Partition, effects: Sequence[Effect]) -> None:
        if effects:
            values = [{**partition._asdict(), **effect_values(effect)} for effect in effects]
            self._connection.execute(insert(LEDGER), values)

    def ledger(self, partition: Partition) -> tuple[Effect, ...]:
        found = map(effect_from, self._rows(PARTITION[LEDGER], **partition._asdict()))
        return tuple(sorted(found, key=lambda effect: effect.position))

    def log_late(self, namespace: str, late: LateWrite, request_digest: str) -> None:
        values = {"namespace": namespace, "request_digest": request_digest, **late.model_dump()}
        if not self._rows(ONE_LATE, **{column.name: values[column.name] for column in LATE.primary_key}):
            self._connection.execute(insert(LATE), values)

    def late(self, partition: Partition) -> tuple[LateWrite, ...]:
        found = self._rows(PARTITION[LATE], **partition._asdict())
        return tuple(map(late_from, sorted(found, key=lambda one: (one["delivery_id"], one["request_digest"]))))

    def purge(self, partition: Partition) -> None:
        for statement in PURGE:
            self._connection.execute(statement, partition._asdict())

    def contents(self, namespace: str) -> Contents:
        def found(table: Table, *names: str) -> tuple[tuple[int, str], ...]:
            rows = self._rows(select(table).where(table.c.namespace == namespace))
            return tuple(sorted((one["generation"], "/".join(str(one[name]) for name in names)) for one in rows))

        return Contents(
            rows=found(ROW, "world", "collection", "key"),
            deliveries=found(DELIVERY, "delivery_id"),
            ledger=found(LEDGER, "position"),
        )

    def _rows(self, statement: Select[Any], **parameters: Any) -> list[Mapping[str, Any]]:
        return rows_of(self._connection, statement, **parameters)

    def _held(self, statement: Select[Any], **parameters: Any) -> Namespace | None:
        return next(map(namespace_from, self._rows(statement, **parameters)), None)

    def _replace(self, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
        if rows:
            removing, inserting = REPLACE[table]
            self._connection.execute(
                removing, [{key.name: row[key.name] for key in table.primary_key} for row in rows]
            )
            self._connection.execute(inserting, rows)


class SqlWorlds:
    """``WorldStore`` on a database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @contextmanager
    def transaction(self) -> Iterator[SqlWorldTx]:
        try:
            with self._database.transaction() as connection:
                yield SqlWorldTx(connection)
        except OperationalError as error:
            raise WorldUnreachable(f"the world's database failed: {error.orig}") from error
