"""Statements that read one page of a list across projects: one statement, however many projects there are.

Each project has its rows in the order of the list, by an index. The first few of each are looked at, and of these
together the first that fit make the page. `share` is how many of a project are looked at. Where a project has more than
its share, the page ends at the last one of these, and the next page goes on from there: so nothing is left out, and
nobody's page looks at more than `LOOKS_AT_MOST` rows and a few of each project.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

import sqlalchemy as sa

from workhook.storage import Row
from workhook.storage.metadata import big
from workhook.work.history.across.places import VisibleProjects
from workhook.work.kernel.pages import PAGE_CHARS

T = TypeVar("T")
Condition = sa.ColumnElement[bool]

LOOKS_AT_MOST = 10_000
"""Rows that a page looks at, of all projects together, so that it takes less than 100 ms."""

A_FEW = 20
"""Of each project a page with filters looks at so many at least."""

A_PAGE = 101
"""Of each project a page without filters looks at so many at least, so that a page of a hundred is full."""

UNFILTERED = 2
"""Rows that need no look are cheaper: so many times as many are taken."""

# More than any page has. In a plan for all values a limit that is not known counts as a tenth of the rows.
_MOST: sa.ColumnElement[int] = sa.literal_column("1024")
_ROOM = sa.literal_column(str(PAGE_CHARS), sa.BigInteger)


@dataclass(frozen=True)
class Walk:
    """How the rows of one table are found in a project.

    `key`: what the list is ordered by, by name, `id` last; of a row of the table. `falling`: from high to low.
    `narrow`: the conditions that an index has. `asked`: the columns that `fits` needs, which judges a row that was
    looked at: by these columns, `repository_id` and `insider`. `filtered`: the caller chose some of that. `repeated`:
    names of the key that say nothing about the order of one table's rows.
    """

    table: sa.Table
    key: Callable[[sa.FromClause], Mapping[str, sa.ColumnElement[Any]]]
    falling: bool = False
    narrow: Sequence[Callable[[sa.FromClause], Condition]] = ()
    asked: Sequence[str] = ()
    fits: Sequence[Callable[[sa.FromClause], Condition]] = ()
    filtered: bool = False
    repeated: Collection[str] = ()


def in_order(columns: Sequence[sa.ColumnElement[Any]], falling: bool) -> list[sa.ColumnElement[Any]]:
    return [each.desc() if falling else each for each in columns]


def _share(walk: Walk, number: sa.ColumnElement[int]) -> sa.ColumnElement[int]:
    """Of the parameters `most` and `limit`."""
    each = big("most").op("/", return_type=sa.BigInteger())(number + sa.literal_column("1"))  # rounded down
    if walk.fits:
        return each + sa.literal_column(str(A_FEW if walk.filtered else A_PAGE))
    enough = each * sa.literal_column(str(UNFILTERED)) + sa.literal_column(str(A_PAGE))
    return sa.case((big("limit") < enough, big("limit")), else_=enough)


def looked_at(walk: Walk, visible: VisibleProjects, dialect: str) -> sa.Select[Any]:
    """The rows of every project that the page looks at: their keys, whether each `fits`, and whether it is the `last`
    one that is looked at in its project."""
    place, share = visible.each, _share(walk, visible.number)
    row = walk.table.alias("stretch")
    key = walk.key(row)
    top = (
        sa.select(*_columns(walk, row))
        .where(row.c.repository_id == place.c.repository_id, *(each(row) for each in walk.narrow))
        .order_by(*in_order(_ordering(walk, key), walk.falling))
        .limit(share)
        .correlate(place)
    )
    if dialect == "postgresql":
        few: sa.FromClause = top.lateral("few")
        seen = sa.select(place.c.repository_id, place.c.insider, *few.c).select_from(place.join(few, sa.true()))
    else:
        some = walk.table.alias("few")
        mine = some.c.id.in_(top.with_only_columns(row.c.id))
        seen = sa.select(place.c.repository_id, place.c.insider, *_columns(walk, some)).select_from(
            place.join(some, mine)
        )
    of_all = seen.subquery("seen")
    order = in_order([of_all.c[name] for name in key], walk.falling)
    place_in_project = sa.func.row_number().over(partition_by=of_all.c.repository_id, order_by=order)
    numbered = sa.select(of_all, place_in_project.label("number")).cte(f"numbered_{walk.table.name}")
    return _judged(walk, numbered, numbered.c.number == share)


def found_by_words(walk: Walk, visible: VisibleProjects, matching: Condition) -> sa.Select[Any]:
    """`looked_at` for all rows that have the words that were searched for, by the index of words."""
    table, place = walk.table, visible.each
    has = (
        sa.select(place.c.repository_id, place.c.insider, *_columns(walk, table))
        .select_from(table.join(place, place.c.repository_id == table.c.repository_id))
        .where(matching, *(each(table) for each in walk.narrow))
        .cte("has_words")
    )
    return _judged(walk, has, sa.false())


def _columns(walk: Walk, row: sa.FromClause) -> list[sa.Label[Any]]:
    key = walk.key(row)
    asked = [row.c[name].label(name) for name in walk.asked if name not in key]
    return [*(each.label(name) for name, each in key.items()), *asked]


def _ordering(walk: Walk, key: Mapping[str, sa.ColumnElement[Any]]) -> list[sa.ColumnElement[Any]]:
    """Of the rows of one table."""
    return [each for name, each in key.items() if name not in walk.repeated]


def _judged(walk: Walk, rows: sa.CTE, last: Condition) -> sa.Select[Any]:
    fits = sa.and_(sa.true(), *(each(rows) for each in walk.fits))
    names = walk.key(walk.table)
    return sa.select(
        rows.c.repository_id, rows.c.insider, *(rows.c[name] for name in names), fits.label("fits"), last.label("last")
    )


def page_of(judged: sa.Select[Any] | sa.CompoundSelect[Any], names: Sequence[str], *, falling: bool = False) -> sa.CTE:
    """The first `limit` rows that fit, with those that are the `last` of their project."""
    some = judged.subquery("judged")
    order = in_order([some.c[name] for name in names], falling)
    first = sa.select(some).where(sa.or_(some.c.fits, some.c.last)).order_by(*order).limit(big("limit"))
    return sa.select(first.subquery("first")).limit(_MOST).cte("page")


def sized(weighed: sa.Select[Any] | sa.CompoundSelect[Any], names: Sequence[str], *, falling: bool = False) -> sa.CTE:
    """The rows of a page that has the `weight` of each, the characters of its texts, without those at the end that are
    too much for one answer; `page_found` is how many there were."""
    some = weighed.subquery("weighed")
    order = in_order([some.c[name] for name in names], falling)
    before = sa.cast(sa.func.sum(some.c.weight).over(order_by=order), sa.BigInteger) - some.c.weight
    every = sa.select(some, before.label("before"), sa.func.count().over().label("page_found")).subquery("every")
    return sa.select(every).where(every.c.before < _ROOM).cte("sized")


def size_of(page: sa.CTE, table: sa.Table, weight: sa.ColumnElement[int]) -> sa.Select[Any]:
    """The rows of a page, each with its `weight`."""
    return sa.select(page, sa.cast(weight, sa.BigInteger).label("weight")).select_from(
        page.join(table, table.c.id == page.c.id)
    )


def page_columns(page: sa.CTE, names: Sequence[str]) -> list[sa.Label[Any]]:
    """What `read_page` reads of a row."""
    listed = [*names, "fits", "last", "page_found", "insider"]
    return [page.c[name].label(f"page_{name}" if name != "page_found" else name) for name in listed]


class AcrossPage(NamedTuple, Generic[T]):
    """`rows`, each with its key. `cut`: the page ended early (`pages.PAGE_CHARS`). `last_seen`: the key behind which
    nothing was looked at, where the page ends for that."""

    rows: list[tuple[T, tuple[Any, ...]]]
    cut: bool = False
    last_seen: tuple[Any, ...] | None = None


def read_page(rows: Sequence[Row], names: Sequence[str], make: Callable[[Row], T]) -> AcrossPage[T]:
    """The page that the rows of `page_columns` make."""
    found: list[tuple[T, tuple[Any, ...]]] = []
    for row in rows:
        key = tuple(row[f"page_{name}"] for name in names)
        if row["page_fits"]:
            found.append((make(row), key))
        if row["page_last"]:  # what follows may have gaps: more of this project was not looked at
            return AcrossPage(found, last_seen=key)
    return AcrossPage(found, cut=bool(rows) and len(rows) < rows[0]["page_found"])


def behind(
    names: Sequence[str], *, falling: bool = False
) -> Callable[[Mapping[str, sa.ColumnElement[Any]]], Condition]:
    """A condition on a key: it comes behind the parameters `after_NAME`. It names the first column alone, too: SQLite
    finds no pair with an expression by an index."""

    def condition(key: Mapping[str, sa.ColumnElement[Any]]) -> Condition:
        first = sa.bindparam(f"after_{names[0]}", type_=key[names[0]].type)
        if len(names) == 1:
            return key[names[0]] < first if falling else key[names[0]] > first
        mine = sa.tuple_(*(key[name] for name in names))
        there = sa.tuple_(*(sa.bindparam(f"after_{name}", type_=key[name].type) for name in names))
        if falling:
            return sa.and_(key[names[0]] <= first, mine < there)
        return sa.and_(key[names[0]] >= first, mine > there)

    return condition


def after_params(names: Sequence[str], after: Sequence[object] | None) -> dict[str, object]:
    """The parameters of `behind`."""
    return {} if after is None else {f"after_{name}": value for name, value in zip(names, after, strict=True)}
