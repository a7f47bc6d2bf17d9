"""Statements on our tables, made once: to make one costs more than to run it."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import ColumnElement, Connection, Executable, Table, bindparam
from sqlmodel import SQLModel

Row = Mapping[str, Any]


def table_of(model: type[SQLModel]) -> Table:
    """The table of a model."""
    return SQLModel.metadata.tables[str(model.__tablename__)]


def equal(*columns: ColumnElement[Any], prefix: str = "") -> list[ColumnElement[bool]]:
    """Conditions on columns, with parameters of the columns' names behind ``prefix``.

    An update needs one: there the plain names are those of what is set.
    """
    return [column == bindparam(prefix + str(column.key)) for column in columns]


def rows_of(connection: Connection, statement: Executable, **parameters: Any) -> list[Row]:
    """All rows that a statement finds."""
    return [dict(row) for row in connection.execute(statement, parameters).mappings()]
