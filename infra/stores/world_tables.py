"""Tables of the world engine.

Collections, keys and other text that agents choose are kept as UTF-8 bytes: so their order is that of code
points and no database's collation is ever visible, and no database refuses a character.
"""

from typing import Any

from sqlalchemy import BigInteger, Column, LargeBinary
from sqlalchemy.engine import Dialect
from sqlalchemy.types import TypeDecorator
from sqlmodel import Field, SQLModel


class AgentText(TypeDecorator[str]):
    """Text as UTF-8 bytes."""

    impl = LargeBinary
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> bytes | None:
        return None if value is None else value.encode("utf-8", "surrogatepass")

    def process_result_value(self, value: Any, dialect: Dialect) -> str | None:
        return None if value is None else bytes(value).decode("utf-8", "surrogatepass")


ZERO = {"server_default": "0"}
"""For rows that are older than the column."""


class NamespaceTable(SQLModel, table=True):
    """One namespace; ``request``, ``lease`` and ``drain`` are canonical JSON."""

    __tablename__ = "namespace"

    name: str = Field(primary_key=True)
    state: str = Field(index=True)
    fence: int
    lease_generation: int
    owner: str | None = Field(default=None, unique=True)
    request: bytes | None = None
    lease: bytes | None = None
    position: int
    deliveries: int
    sealed_position: int
    in_flight: int
    incarnation: int = Field(sa_column_kwargs=ZERO)
    drain: bytes | None = None
    reason: str


class RowTable(SQLModel, table=True):
    """The copy-on-write table: everything that changes in a world. No body is a tombstone."""

    __tablename__ = "world_row"

    namespace: str = Field(primary_key=True)
    generation: int = Field(primary_key=True)
    world: str = Field(primary_key=True)
    collection: str = Field(primary_key=True, sa_type=AgentText)
    key: str = Field(primary_key=True, sa_type=AgentText)
    body: bytes | None = None


class DeliveryTable(SQLModel, table=True):
    """One delivery; ``arguments``, ``reply`` and ``wait`` are canonical JSON. No reply: it is open."""

    __tablename__ = "delivery"

    namespace: str = Field(primary_key=True)
    generation: int = Field(primary_key=True)
    delivery_id: str = Field(primary_key=True)
    ordinal: int
    request_digest: str
    tool: str = Field(sa_type=AgentText)
    arguments: bytes
    reply: bytes | None = None
    wait: bytes | None = None


class LedgerTable(SQLModel, table=True):
    """One row change; images are canonical JSON."""

    __tablename__ = "ledger"

    namespace: str = Field(primary_key=True)
    generation: int = Field(primary_key=True)
    position: int = Field(primary_key=True)
    cause_kind: str
    cause: str
    tool: str = Field(sa_type=AgentText)
    operation_id: str | None = Field(default=None, sa_type=AgentText)
    world: str
    collection: str = Field(sa_type=AgentText)
    key: str = Field(sa_type=AgentText)
    before: bytes | None = None
    after: bytes | None = None
    at_s: int = Field(sa_column=Column(BigInteger, nullable=False))


class LateTable(SQLModel, table=True):
    """A refused write with an old fence; a repeat of the same request is the same row."""

    __tablename__ = "late_write"

    namespace: str = Field(primary_key=True)
    generation: int = Field(primary_key=True)
    delivery_id: str = Field(primary_key=True)
    request_digest: str = Field(primary_key=True)
    tool: str = Field(sa_type=AgentText)
    current_generation: int
    incarnation: int = Field(sa_column_kwargs=ZERO)
    current_incarnation: int = Field(sa_column_kwargs=ZERO)
