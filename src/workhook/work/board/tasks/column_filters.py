"""The tasks of a column that fit filters, in their order.

The first tasks of the column are looked at, `LOOKS_AT_MOST` at a time, and those that fit are taken: a page can be
short, and not be the last. Those that have words are found by the index of words, all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import sqlalchemy as sa

from workhook.identity.schemas import Actor
from workhook.storage import Reader, Row
from workhook.storage.metadata import big
from workhook.storage.statements import PerDialect
from workhook.work.board.tasks import listing
from workhook.work.board.tasks.matching import task_matches
from workhook.work.board.tasks.queries import project_of
from workhook.work.board.tasks.schemas import (
    Task,
    columns,
    every_column,
    task_buckets,
    task_of,
    tasks,
    weight,
    with_column,
)
from workhook.work.kernel.access import Access, find_with_access, with_access
from workhook.work.kernel.pages import LOOKS_AT_MOST, per_dialect

Key = tuple[int, int]
"""The rank of the task's bucket in the column, and its own rank there."""

_column = with_access(sa.select(columns.c.id).where(columns.c.id == sa.bindparam("column_id")), columns.c.repository_id)


def _walk(filters: frozenset[str], *, continues: bool) -> sa.Select[Any]:
    asked = sorted({name for each in filters for name in listing.ASKED.get(each, ())})
    walk = (
        sa.select(
            tasks.c.id,
            task_buckets.c.rank.label("bucket_rank"),
            tasks.c.rank.label("rank"),
            *(tasks.c[name] for name in asked),
        )
        .select_from(task_buckets.join(tasks, tasks.c.bucket_id == task_buckets.c.id))
        .where(task_buckets.c.column_id == sa.bindparam("column_id"))
        .order_by(task_buckets.c.rank, tasks.c.rank, tasks.c.id)
    )
    if not continues:
        return walk
    return walk.where(
        task_buckets.c.rank >= big("bucket_rank"),
        sa.or_(task_buckets.c.rank > big("bucket_rank"), tasks.c.rank > big("rank")),
    )


@lru_cache(maxsize=256)
def _statement(filters: frozenset[str], continues: bool) -> PerDialect:
    def make(dialect: str) -> sa.Select[Any]:
        walk, by_words = _walk(filters, continues=continues), "q" in filters
        seen = (walk.where(task_matches()) if by_words else walk.limit(big("most"))).subquery("seen")
        order = [seen.c.bucket_rank, seen.c.rank, seen.c.id]
        numbered = sa.select(seen, sa.func.row_number().over(order_by=order).label("number")).cte("numbered")
        conditions = listing.conditions_of(numbered, dialect)
        fits = sa.and_(sa.true(), *(conditions[name]() for name in sorted(filters - {"q"})))
        last = sa.false() if by_words else numbered.c.number == big("most")
        judged = sa.select(
            numbered.c.id, numbered.c.bucket_rank, numbered.c.rank, fits.label("fits"), last.label("last")
        ).subquery("judged")
        key = [judged.c.bucket_rank, judged.c.rank, judged.c.id]
        page = (
            sa.select(judged)
            .where(sa.or_(judged.c.fits, judged.c.last))
            .order_by(*key)
            .limit(big("limit"))
            .subquery("page")
        )
        some = (
            sa.select(page, weight.label("weight"))
            .select_from(page.join(tasks, tasks.c.id == page.c.id))
            .subquery("some")
        )
        sized = listing.no_more_than_a_page(some, some.c.bucket_rank, some.c.rank, some.c.id)
        shown = [sized.c[name].label(f"page_{name}") for name in ("bucket_rank", "rank", "fits", "last", "found")]
        return (
            sa.select(*every_column, *shown)
            .select_from(with_column.join(sized, sized.c.id == tasks.c.id))
            .where(listing.on_page(sized))
            .order_by(sized.c.bucket_rank, sized.c.rank, sized.c.id)
        )

    return per_dialect(make)


class FilteredColumn(NamedTuple):
    """`tasks`, each with its key. `cut`: the page ended early (`pages.PAGE_CHARS`). `last_seen`: the key of the last
    task that was looked at, if there may be more behind it."""

    access: Access
    tasks: list[tuple[Task, Key]]
    cut: bool = False
    last_seen: Key | None = None


async def read_filtered(
    reader: Reader, actor: Actor, column_id: str, filters: Mapping[str, object], *, after: Key | None, limit: int
) -> FilteredColumn:
    """The tasks of a column that fit every filter of `listing.params_of`; `after` is the key to start behind. A client
    finds nothing by the name of a person whom it does not see. Raises `NotFound`."""
    _, access = await find_with_access(reader, _column, actor, column_id=column_id)
    if not await listing.may_ask(reader, access, filters):
        return FilteredColumn(access, [])
    params: dict[str, object] = {**filters, "column_id": column_id, "limit": limit, "most": LOOKS_AT_MOST}
    if after is not None:
        params["bucket_rank"], params["rank"] = after
    rows = await reader.fetch_all(_statement(frozenset(filters), after is not None), params)
    project = project_of(access)
    found = [(task_of(row, project), _key(row)) for row in rows if row["page_fits"]]
    last = next((_key(row) for row in rows if row["page_last"]), None)
    return FilteredColumn(access, found, cut=bool(rows) and len(rows) < rows[0]["page_found"], last_seen=last)


def _key(row: Row) -> Key:
    return row["page_bucket_rank"], row["page_rank"]
