"""Lists that are read by page number, and their row counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import sqlalchemy as sa

from workhook.storage.database import Reader, Row
from workhook.storage.metadata import bigint_param


class Page(NamedTuple):
    """A part of a list."""

    limit: int
    offset: int = 0


ALL_ROWS = Page(2**31)


@dataclass(frozen=True)
class NumberedList:
    """The statements for a page of a list and for its row count. With `counts`, the page's rows have a `total`."""

    page: sa.Select[*tuple[Any, ...]]
    count: sa.Select[*tuple[Any, ...]]
    counts: bool


def numbered_list(
    statement: sa.Select[*tuple[Any, ...]], *order: sa.ColumnElement[Any], counts: bool = True
) -> NumberedList:
    """Return `statement` sorted by `order` and read by page. It keeps the parameters of `statement`.

    `counts` counts all rows along with the page. This also keeps PostgreSQL from scanning the whole table in this
    order, and is unnecessary if an index has this order.
    """
    page = statement.add_columns(sa.func.count().over().label("total")) if counts else statement
    return NumberedList(
        page.order_by(*order).limit(bigint_param("limit")).offset(bigint_param("offset")),
        sa.select(sa.func.count().label("total")).select_from(statement.subquery()),
        counts,
    )


async def read_page(
    reader: Reader, numbered: NumberedList, params: Mapping[str, object], page: Page
) -> tuple[Sequence[Row], int]:
    """Return the rows and the total number, which is counted separately only if the page does not reveal it."""
    rows = await reader.fetch_all(numbered.page, {**params, **page._asdict()})
    if rows and numbered.counts:
        return rows, rows[0]["total"]
    if len(rows) < page.limit and (rows or not page.offset):
        return rows, page.offset + len(rows)
    return rows, await count(reader, numbered, params)


async def count(reader: Reader, numbered: NumberedList, params: Mapping[str, object]) -> int:
    row = await reader.fetch_one(numbered.count, params)
    return row["total"] if row else 0
