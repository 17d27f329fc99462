"""Rows generated inside the database: the numbers from `first` to `last`, and expressions computed from each.

Everything works on both databases, and no row data is transferred.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any

import sqlalchemy as sa

from bench.filling.plan import COLUMNS, PEOPLE, PROJECTS
from workhook.storage.metadata import bigint_param

Whole = sa.ColumnElement[int]
Text = sa.ColumnElement[str]

_HEX = "0123456789abcdef"
_BASE32 = "0123456789abcdefghjkmnpqrstvwxyz"  # the alphabet of `core.ids`

_from = sa.select(bigint_param("first").label("n")).cte("numbers", recursive=True)
_numbers = _from.union_all(sa.select(_from.c.n + sa.literal(1, sa.BigInteger)).where(_from.c.n < bigint_param("last")))
N: Whole = _numbers.c.n


def rows(table: sa.Table, columns: Mapping[str, sa.ColumnElement[Any]], *where: sa.ColumnElement[bool]) -> sa.Insert:
    """Return an INSERT of one row per number, in order, so that IDs assigned by the database follow it."""
    made = sa.select(*columns.values()).select_from(_numbers).where(*where).order_by(N)
    return sa.insert(table).from_select(list(columns), made, include_defaults=False)


def whole(value: int) -> Whole:
    return sa.literal(value, sa.BigInteger)


def text(value: str) -> Text:
    return sa.literal(value, sa.Text)


def data(value: bytes) -> sa.ColumnElement[bytes]:
    return sa.literal(value, sa.LargeBinary)


def joined(*parts: Text) -> Text:
    return reduce(lambda one, other: one.concat(other), parts)


def pick(number: Whole, values: Sequence[Any]) -> sa.ColumnElement[Any]:
    """Return the values in turn."""
    kind = sa.Text() if any(isinstance(each, str) for each in values) else sa.BigInteger()
    each = [sa.null() if value is None else sa.literal(value, kind) for value in values]
    turn = number % whole(len(values))
    return sa.case(*((turn == whole(index), value) for index, value in enumerate(each[:-1])), else_=each[-1])


def padded(number: Whole, digits: int) -> Text:
    return sa.func.substr(sa.cast(number + whole(10**digits), sa.Text), 2, type_=sa.Text())


def _digits(number: Whole, alphabet: str, count: int) -> list[Text]:
    base, letters = len(alphabet), text(alphabet)
    places = (number // whole(base**place) % whole(base) for place in reversed(range(count)))
    one = sa.literal(1, sa.Integer)
    return [sa.func.substr(letters, sa.cast(each, sa.Integer) + one, one, type_=sa.Text()) for each in places]


def guid(at_ms: Whole, number: Whole) -> Text:
    """Return a GUID as created by `core.ids.new_guid`, without its random part."""
    hexed = _digits(at_ms, _HEX, 12)
    return joined(*hexed[:8], text("-"), *hexed[8:], text("-7000-8000-"), padded(number, 12))


def id_text(prefix: str, at_ms: Whole, number: Whole) -> Text:
    """Return an ID as created by `core.ids.new_id`, without its random part."""
    return joined(text(f"{prefix}_"), *_digits(at_ms, _BASE32, 10), padded(number, 16))


def spread(number: Whole, total: str) -> Whole:
    """Return the time of a row when all rows are created in order of their numbers."""
    return bigint_param("start") + number * bigint_param("span") // bigint_param(total)


def shuffled(number: Whole, total: str) -> Whole:
    """Return the time of a row when all rows are created in no visible order."""
    return bigint_param("start") + (number * whole(7919) % bigint_param(total)) * bigint_param("span") // bigint_param(
        total
    )


def person(number: Whole) -> Whole:
    return bigint_param("first_person") + number % whole(PEOPLE)


def repository_at(index: Whole) -> Whole:
    return bigint_param("first_repository") + index


def account_at(index: Whole) -> Whole:
    """Return the account of the repository with this index, from 0."""
    return sa.case((index < whole(PROJECTS), bigint_param("acme")), else_=bigint_param("globex"))


def column_at(index: Whole) -> Text:
    """Return the ID of the column with this index among all columns."""
    return id_text("col", bigint_param("start"), index)


OTHERS = 2 * PROJECTS - 1
OTHER_COLUMNS = OTHERS * COLUMNS
