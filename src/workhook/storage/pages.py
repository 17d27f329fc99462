"""Lists that are read page by page, and their row counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import sqlalchemy as sa

from workhook.core.errors import Malformed
from workhook.storage.database import Reader, Row
from workhook.storage.metadata import bigint_param


class Page(NamedTuple):
    """A part of a list."""

    limit: int
    offset: int = 0


ALL_ROWS = Page(2**31)


@dataclass(frozen=True)
class Listed:
    """The statement for one page, and the one that counts all rows. With `counts`, the page's rows have a `total`."""

    page: sa.Select[*tuple[Any, ...]]
    count: sa.Select[*tuple[Any, ...]]
    counts: bool


def listed(statement: sa.Select[*tuple[Any, ...]], *order: sa.ColumnElement[Any], counts: bool = True) -> Listed:
    """Return `statement` sorted by `order` and read by page. It keeps the parameters of `statement`.

    `counts` counts all rows along with the page. This also keeps PostgreSQL from scanning the whole table in this
    order, and is unnecessary if an index has this order.
    """
    page = statement.add_columns(sa.func.count().over().label("total")) if counts else statement
    return Listed(
        page.order_by(*order).limit(bigint_param("limit")).offset(bigint_param("offset")),
        sa.select(sa.func.count().label("total")).select_from(statement.subquery()),
        counts,
    )


async def read_page(
    reader: Reader, listed: Listed, params: Mapping[str, object], page: Page
) -> tuple[Sequence[Row], int]:
    """Return the rows and the total number, which is counted separately only if the page does not reveal it."""
    rows = await reader.fetch_all(listed.page, {**params, **page._asdict()})
    if rows and listed.counts:
        return rows, rows[0]["total"]
    if len(rows) < page.limit and (rows or not page.offset):
        return rows, page.offset + len(rows)
    return rows, await count(reader, listed, params)


_CURSOR = "v1_"


def cursor_at(row: Row) -> str:
    """Return the cursor of a row. Each list decides whether the page of a cursor includes its row."""
    return f"{_CURSOR}{row['id']}"


def parse_cursor(text: str | None) -> int | None:
    """Return the ID in a cursor of `cursor_at`, or None without a cursor. Raises `Malformed` for other texts."""
    if text is None:
        return None
    number = text.removeprefix(_CURSOR)
    if not text.startswith(_CURSOR) or not number.isascii() or not number.isdigit() or len(number) > 16:
        raise Malformed("The cursor does not come from a Link header.", code="bad_cursor")
    return int(number)


async def count(reader: Reader, listed: Listed, params: Mapping[str, object]) -> int:
    row = await reader.fetch_one(listed.count, params)
    return row["total"] if row else 0
