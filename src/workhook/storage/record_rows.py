"""Tables and rows of records: columns, what a SELECT of them names, and the copiers of rows, from the declaration.

A field of a record is stored in the column of its name unless the declaration says another (`core.records.Stored`). A
field of another type than those that a column can hold has no column: whoever reads the record gives its value.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import cache
from operator import attrgetter
from typing import Any, Generic, Literal, TypeVar, get_args, get_origin

import sqlalchemy as sa

from workhook.core.records import Record, RecordField, Stored, fields_of
from workhook.storage.metadata import BigId

R = TypeVar("R", bound=Record)

_TYPES: dict[Any, Any] = {str: sa.Text, int: sa.BigInteger, bool: sa.Boolean}


@cache
def _columns(record: type[Record]) -> dict[str, RecordField]:
    """The fields that are stored, by the name of their column."""
    found = {}
    for each in fields_of(record):
        mark = each.mark(Stored)
        column = each.name if mark is None else mark.column
        if column is not None and _base(each) in _TYPES:
            found[column] = each
    return found


def _base(field: RecordField) -> Any:
    return type(get_args(field.plain)[0]) if get_origin(field.plain) is Literal else field.plain


def stored_names(record: type[Record], *, without: Collection[str] = ()) -> tuple[str, ...]:
    """The names of the columns that hold a record."""
    return tuple(name for name in _columns(record) if name not in without)


def table_columns(record: type[Record], **references: sa.ForeignKey) -> list[sa.Column[Any]]:
    """The columns of a record's table, by the types of its fields; `id` is the primary key. `references`: the foreign
    keys of columns, by their names."""
    return [
        sa.Column(
            name,
            BigId if name == "id" and each.plain is int else _TYPES[_base(each)],
            *([references[name]] if name in references else []),
            primary_key=name == "id",
            nullable=each.nullable,
        )
        for name, each in _columns(record).items()
    ]


def selected(record: type[Record], table: sa.FromClause, prefix: str = "") -> list[sa.Label[Any]]:
    """What `RowReader` reads: put these first in the SELECT."""
    return [table.c[name].label(prefix + name) for name in _columns(record)]


def assigned(names: Collection[str]) -> dict[str, sa.BindParameter[Any]]:
    """For the values of an INSERT or UPDATE: each column is a parameter of its name."""
    return {name: sa.bindparam(name) for name in names}


class RowReader(Generic[R]):
    """Makes records of rows that begin with the columns of `selected`, or have them from `start` on. Fields without a
    column are given by their names. Columns are read by their place: SQLite looks up a name by going through all."""

    def __init__(self, record: type[R]) -> None:
        stored = [each.name for each in _columns(record).values()]
        order = [each.name for each in fields_of(record)]
        self._record: Callable[..., R] = record
        self._count = len(stored)
        # The columns come in the order of the fields, so that the values that are given go between them.
        assert stored == [name for name in order if name in stored]
        self._given = [(index, name) for index, name in enumerate(order) if name not in stored]
        # SQLite has numbers for booleans.
        self._flags = [stored.index(each.name) for each in _columns(record).values() if each.plain is bool]

    def __call__(self, row: Any, start: int = 0, **given: object) -> R:
        values = list(row[start : start + self._count])
        for index in self._flags:
            values[index] = bool(values[index])
        for index, name in self._given:
            values.insert(index, given[name])
        return self._record(*values)


def values_of(record: Record) -> dict[str, object]:
    """The parameters of a statement that stores the record, by the names of its columns."""
    names, get = _getter(type(record))
    return dict(zip(names, get(record), strict=True))


@cache
def _getter(record: type[Record]) -> tuple[tuple[str, ...], Callable[[Record], tuple[object, ...]]]:
    columns = _columns(record)
    return tuple(columns), attrgetter(*(each.name for each in columns.values()))
