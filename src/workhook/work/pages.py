"""A page of a list ends by its number of rows, and by its size where a row can be large: a thousand invoices could hold
some gigabytes. There is at least one row."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.sql.expression import Executable

from workhook.http.lists import Found
from workhook.storage import Reader, Row

T = TypeVar("T")

PAGE_CHARS = 8 * 1024 * 1024
"""Of texts in one answer."""

LOOKS_AT_MOST = 4_000
"""Rows that a page with filters looks at, so that it takes less than 100 ms. What fits may be rare, and a project has
any number of tasks and timesheets."""

_ROOM = sa.literal_column(str(PAGE_CHARS), sa.BigInteger)


def length(*texts: sa.ColumnElement[Any]) -> sa.ColumnElement[int]:
    """Of all the texts, in characters; one that is null has none."""
    return reduce(operator.add, (sa.func.coalesce(sa.func.length(each), 0) for each in texts))


def bounded(
    whole: sa.Select[Any], listed: sa.Select[Any], key: sa.ColumnElement[Any], weight: sa.ColumnElement[int]
) -> sa.Select[Any]:
    """Of the rows of `whole` those that `listed` finds, which is ordered by its `key` and limited, without those at the
    end that are too much: `weight` is a row's, in characters. The database reads no text of these. For `fetch`.

    A plan that was made for any values expects that few rows meet the conditions of `listed`. So `whole` does not ask
    for them, else the page may be found anew for each row; and `listed` joins no more than it needs, else all may be
    joined before they are sorted.
    """
    some = listed.with_only_columns(key.label("page_key"), sa.cast(weight, sa.BigInteger).label("weight")).subquery(
        "some"
    )
    before = sa.cast(sa.func.sum(some.c.weight).over(order_by=some.c.page_key), sa.BigInteger) - some.c.weight
    sized = sa.select(some.c.page_key, before.label("before"), sa.func.count().over().label("found")).subquery("sized")
    return (
        whole.join(sized, sized.c.page_key == key)
        .where(sized.c.before < _ROOM)
        .order_by(key)
        .add_columns(sized.c.found.label("page_found"))
    )


async def fetch(
    reader: Reader, statement: Executable, params: Mapping[str, object], make: Callable[[Row], T]
) -> Found[T]:
    """The rows of a `bounded` statement, as `make` makes something of each."""
    rows = await reader.fetch_all(statement, params)
    return Found(map(make, rows), cut=bool(rows) and len(rows) < rows[0]["page_found"])
