"""Tables and rows of records: columns, SELECT lists and row converters derived from the declaration.

A field of a record is stored in the column with its name unless its declaration names another one
(`core.records.Stored`). Fields of types that a column cannot store have no column; the caller that reads the record
supplies their values.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from functools import cache
from operator import attrgetter
from typing import Any, Literal, TypeVar, get_args, get_origin

import sqlalchemy as sa

from workhook.core import records
from workhook.core.records import Record, RecordField, Wire, fields_of
from workhook.storage.metadata import BigId

R = TypeVar("R", bound=Record)

_TYPES: dict[Any, Any] = {str: sa.Text, int: sa.BigInteger, bool: sa.Boolean}


@cache
def _columns(record: type[Record]) -> dict[str, RecordField]:
    found = {}
    for each in fields_of(record):
        mark = each.mark(records.Stored)
        column = each.name if mark is None else mark.column
        if column is not None and _base(each) in _TYPES:
            found[column] = each
    return found


def _base(field: RecordField) -> Any:
    return type(get_args(field.base_type)[0]) if get_origin(field.base_type) is Literal else field.base_type


def stored_names(record: type[Record], *, without: Collection[str] = ()) -> tuple[str, ...]:
    return tuple(name for name in _columns(record) if name not in without)


def table_columns(record: type[Record], **references: sa.ForeignKey) -> list[sa.Column[Any]]:
    """Return the columns of a record's table, with `id` as the primary key. `references` has foreign keys by column."""
    return [
        sa.Column(
            name,
            BigId if name == "id" and each.base_type is int else _TYPES[_base(each)],
            *([references[name]] if name in references else []),
            primary_key=name == "id",
            nullable=each.nullable,
        )
        for name, each in _columns(record).items()
    ]


def selected(record: type[Record], table: sa.FromClause, prefix: str = "") -> list[sa.Label[Any]]:
    """Return the columns that `row_reader` reads. They must come first in the SELECT."""
    return [table.c[name].label(prefix + name) for name in _columns(record)]


def assigned(names: Collection[str]) -> dict[str, sa.BindParameter[Any]]:
    """Return the values of an INSERT or UPDATE, in which each column is a parameter with its name."""
    return {name: sa.bindparam(name) for name in names}


def row_reader(record: type[R], start: int = 0) -> Callable[..., R]:
    """Return a function that creates records from rows with the columns of `selected` from position `start` on.

    Its keyword arguments are the fields without a column. It reads columns by position, because SQLite finds a name
    only by searching.
    """
    values = _values(_columns(record).values(), start)
    arguments = ", ".join(values.get(each.name, each.name) for each in fields_of(record))
    parameters = ", ".join(["row", *(each.name for each in fields_of(record) if each.name not in values)])
    made: Callable[..., R] = records.compiled(f"lambda {parameters}: make({arguments})", {"make": record})
    return made


def shown_names(record: type[Record]) -> tuple[str, ...]:
    shown = {each.name for each in records.shown_fields(record)}
    return tuple(name for name, each in _columns(record).items() if each.name in shown)


def form_reader(record: type[R], start: int = 0) -> Callable[..., Wire[R]]:
    """Return a function that creates JSON forms directly from rows with the columns of `shown_names`.

    These start at position `start`. Its keyword arguments are the shown fields without a column.
    """
    columns = _columns(record)
    values = _values([columns[name] for name in shown_names(record)], start)
    shown = [each.name for each in records.shown_fields(record)]
    text, names = records.converted(record, {name: values.get(name, name) for name in shown})
    parameters = ", ".join(["row", *(name for name in shown if name not in values)])
    made: Callable[..., Wire[R]] = records.compiled(
        f"lambda {parameters}: make({text})", {"make": records.wire_of(record), **names}
    )
    return made


def _values(fields: Iterable[RecordField], start: int) -> dict[str, str]:
    """Return the source text of the fields' values in a row. SQLite has numbers for booleans."""
    found = {}
    for index, each in enumerate(fields, start):
        source = found[each.name] = f"row[{index}]"
        if each.base_type is bool:
            made = f"bool({source})"
            found[each.name] = f"None if {source} is None else {made}" if each.nullable else made
    return found


def values_of(record: Record) -> dict[str, object]:
    """Return the parameters of a statement that stores the record, by column."""
    names, get = _getter(type(record))
    return dict(zip(names, get(record), strict=True))


@cache
def _getter(record: type[Record]) -> tuple[tuple[str, ...], Callable[[Record], tuple[object, ...]]]:
    columns = _columns(record)
    return tuple(columns), attrgetter(*(each.name for each in columns.values()))
