"""Lists with filters, sort orders and cursors. Each resource declares a `Listing`, and `read` reads one page of it.

A list covers one project or several, and one statement reads it. An index contains the rows of each project in list
order. The statement scans the first rows of every project, up to a share per project, and the first matching rows make
up the page. If a project has more rows than its share, the page ends at the last scanned row of that project and the
next page continues there. This way no row is missed, and a page scans a bounded number of rows.

Text search uses a full-text index, which returns all matching rows. Within one project, the first rows of the list can
be searched one by one beforehand (`FirstRows`): common words fill the page that way.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Generic, NamedTuple, TypeVar

import sqlalchemy as sa
from msgspec import UNSET

from workhook.http import lists
from workhook.http.calls import Call
from workhook.http.lists import WHOLE_LIST_MAX, Key, ListQuery, Rows
from workhook.identity.tables import accounts, projects
from workhook.storage import Reader, Row
from workhook.storage.dialects import join_few
from workhook.storage.metadata import bigint_param
from workhook.storage.statements import PerDialect
from workhook.work.kernel.list_statements import PAGE_CHARS_LITERAL, ROWS_LIMIT
from workhook.work.kernel.scopes import (
    ProjectRef,
    Scope,
    Source,
    VisibleProjects,
    place_columns,
    read_place,
    visible_projects,
)

T = TypeVar("T")
Condition = sa.ColumnElement[bool]
Weight = sa.ColumnElement[int]

MAX_SCANNED_ROWS = 10_000
"""Maximum number of rows that a page across projects scans, which keeps it below 100 ms."""

MAX_SCANNED_ROWS_IN_PROJECT = 4_000
"""Maximum number of rows that a page of one project scans."""

MIN_FILTERED_ROWS = 20
"""Minimum number of rows per project that a filtered page scans."""

MIN_UNFILTERED_ROWS = 101
"""Minimum number of rows per project that an unfiltered page scans, enough to fill a page of 100."""

UNFILTERED_FACTOR = 2
"""Factor by which more rows are scanned if they need no check, because they are cheaper."""


# --- the declaration of a resource ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Filter:
    """A filter, named like its query parameter.

    - `fits`: the condition.
    - `reads`: columns that the condition needs, besides `id`, `repository_id` and `insider`.
    - `indexed`: an index yields the matching rows in list order.
    - `few`: an index yields the matching rows in another order, but there are few of them.
    - `alone`: an index yields exactly the matching rows in list order, which makes the conditions on the project and
      `Listing.index_condition` unnecessary.
    - `common`: nearly all rows match, so the list of one project searches them without a bound.
    - `project`: the project of the object that the filter names; no other project is read.
    - `value`: converts the value in the query to the statement's parameter.
    """

    fits: Callable[[sa.FromClause], Condition]
    reads: Sequence[str] = ()
    indexed: bool = False
    few: bool = False
    alone: bool = False
    common: bool = False
    project: sa.ScalarSelect[Any] | None = None
    value: Callable[[Any, Source], object] = lambda value, _: value


@dataclass(frozen=True, eq=False)
class Order:
    """A sort order.

    - `key`: columns of a row by name, unique in combination; `id` usually comes last.
    - `cursor`: the types of their values.
    - `constant`: names of columns with the same value in all rows of a table.
    """

    key: Callable[[sa.FromClause], Mapping[str, sa.ColumnElement[Any]]]
    cursor: Any = tuple[str]
    falling: bool = False
    constant: Collection[str] = ()

    def sorted(self, key: Mapping[str, sa.ColumnElement[Any]], *, whole: bool = True) -> list[sa.ColumnElement[Any]]:
        """Return the ORDER BY columns. With `whole=False`, omit those that are constant within one table."""
        columns = [each for name, each in key.items() if whole or name not in self.constant]
        return [each.desc() if self.falling else each for each in columns]

    def of(self, rows: sa.FromClause, names: Collection[str]) -> list[sa.ColumnElement[Any]]:
        """Return the ORDER BY columns of a row source that already contains the key."""
        return self.sorted({name: rows.c[name] for name in names})

    def after_cursor(self, key: Mapping[str, sa.ColumnElement[Any]]) -> Condition:
        """Return the condition that a key comes after the parameters `after_NAME`.

        The first column is also compared on its own, because SQLite cannot use an index for a row value that contains
        an expression.
        """
        mine, after = list(key.values()), [sa.bindparam(f"after_{name}", type_=each.type) for name, each in key.items()]
        if len(mine) == 1:
            return mine[0] < after[0] if self.falling else mine[0] > after[0]
        if self.falling:
            return sa.and_(mine[0] <= after[0], sa.tuple_(*mine) < sa.tuple_(*after))
        return sa.and_(mine[0] >= after[0], sa.tuple_(*mine) > sa.tuple_(*after))


BY_ID = Order(lambda row: {"id": row.c.id})
NEWEST_FIRST = Order(lambda row: {"id": row.c.id}, falling=True)


class FirstRows(NamedTuple):
    """The number of a project's first rows that are searched one by one for words.

    SQLite's index shows whether a row contains them. PostgreSQL parses the text of every row, which costs more than
    reading it, so `characters` bounds the total.
    """

    sqlite_rows: int
    postgresql_rows: int
    characters: int


@dataclass(frozen=True, eq=False)
class Words:
    """The full-text search for the parameter `q`.

    - `matching`: the condition that uses the index.
    - `columns`: for the search in first rows, the columns that `fits` needs in the given dialect.
    - `fits`: the condition on one of the first rows.
    - `size`: the number of searched characters of a row.
    """

    matching: Condition
    columns: Callable[[sa.FromClause, str], Sequence[sa.ColumnElement[Any]]] = lambda _, __: ()
    fits: Callable[[sa.CTE, str], Condition] = lambda _, __: sa.true()
    size: Callable[[sa.FromClause], sa.ColumnElement[int]] = lambda _: sa.literal_column("0")


@dataclass(frozen=True, eq=False)
class Listing(Generic[T]):
    """The list of a resource.

    - `whole`: selects all columns of a row, joined with a page (of rows with `id` and `insider`), and with `projects`
      unless the scope is one project.
    - `make`: creates the record of such a row.
    - `weight`: the number of characters of its texts, or None if they are too short to be added up per page.
    - `index_condition`: the condition of the list's partial indexes.
    - `is_visible`: the condition that the caller sees a row, depending on whether they are an insider of its project.
    - `order`: the default order.
    """

    table: sa.Table
    whole: Callable[[sa.CTE, Scope], sa.Select[Any]]
    make: Callable[[Row, ProjectRef, Source], T]
    weight: Weight | None = None
    filters: Mapping[str, Filter] = field(default_factory=dict)
    words: Words | None = None
    index_condition: Callable[[sa.FromClause], Condition] | None = None
    is_visible: Callable[[sa.FromClause, Condition], Condition] | None = None
    reads: Sequence[str] = ()
    """The columns that `is_visible` needs."""
    order: Order = BY_ID

    def to_filters(self, query: ListQuery, source: Source) -> dict[str, object]:
        values = {name: getattr(query, name, UNSET) for name in self.filters}
        return {name: self.filters[name].value(each, source) for name, each in values.items() if each is not UNSET}


def created_by(row: sa.FromClause) -> Condition:
    """Return the condition that the user named in the parameter `user` created the row."""
    named = sa.select(accounts.c.id).where(accounts.c.login_key == sa.bindparam("user")).scalar_subquery()
    return row.c.user_id == named


BY_USER = Filter(created_by, ("user_id",), value=lambda name, source: source.key_of(name))


# --- the rows that a page scans ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Scan:
    """The scan of one table within a project.

    - `narrow`: conditions that an index serves.
    - `fits`: conditions checked for each scanned row, using the columns `reads`.
    - `filtered`: whether the caller chose any of the conditions in `fits`.
    - `few`: `narrow` leaves few rows, so the index in list order is not worth using.
    """

    table: sa.Table
    order: Order
    narrow: Sequence[Callable[[sa.FromClause], Condition]] = ()
    reads: Sequence[str] = ()
    fits: Sequence[Callable[[sa.FromClause], Condition]] = ()
    filtered: bool = False
    few: bool = False
    alone: bool = False
    words: Words | None = None
    """Searched in the first `rows` rows, up to a total of `characters`."""
    rows: int | None = None
    characters: int | None = None

    def columns(self, row: sa.FromClause, dialect: str) -> list[sa.ColumnElement[Any]]:
        key = self.order.key(row)
        found: list[sa.ColumnElement[Any]] = [each.label(name) for name, each in key.items()]
        found += [row.c[name].label(name) for name in dict.fromkeys(("id", *self.reads)) if name not in key]
        if self.words is not None:
            found += self.words.columns(row, dialect)
            found += [self.words.size(row).label("size")] if self.characters is not None else []
        return found

    def rows_in(self, row: sa.FromClause, repository_id: sa.ColumnElement[int], dialect: str) -> sa.Select[Any]:
        repository = row.c.repository_id + sa.literal_column("0") if self.few else row.c.repository_id
        place = [] if self.alone else [repository == repository_id]
        return (
            sa.select(*self.columns(row, dialect))
            .where(*place, *(each(row) for each in self.narrow))
            .order_by(*self.order.sorted(self.order.key(row), whole=False))
        )

    def judged(self, rows: sa.CTE, last: Condition, dialect: str) -> sa.Select[Any]:
        """Select the row keys, whether each row `fits`, and whether it is the `last` scanned row of its project."""
        conditions = [each(rows) for each in self.fits]
        if self.words is not None:
            conditions.append(self.words.fits(rows, dialect))
        fits: Condition = sa.and_(sa.true(), *conditions)
        if self.characters is not None:  # the last row is the first to exceed the limit, and is not checked
            most = sa.literal_column(str(self.characters), sa.BigInteger)
            too_much = rows.c.before + rows.c.size > most
            fits, last = sa.case((too_much, sa.false()), else_=fits), sa.or_(last, too_much) & (rows.c.before <= most)
        key = [rows.c[name] for name in {**self.order.key(self.table), "id": None}]
        return sa.select(rows.c.repository_id, rows.c.insider, *key, fits.label("fits"), last.label("last"))


def _insider(scope: Scope) -> sa.Label[int]:
    return sa.literal_column(str(scope.project), sa.Integer).label("insider")


def select_scanned(scan: Scan, visible: VisibleProjects, dialect: str) -> sa.Select[Any]:
    """Select the scanned rows of every project, with the columns of `Scan.judged`."""
    place, share = visible.each, _share(scan, visible.number)
    row = scan.table.alias("stretch")
    top = scan.rows_in(row, place.c.repository_id, dialect).limit(share).correlate(place)
    joined, few = join_few(dialect, place, top, scan.table)
    columns = few.c if dialect == "postgresql" else scan.columns(few, dialect)
    of_all = sa.select(place.c.repository_id, place.c.insider, *columns).select_from(joined).subquery("seen")
    order = scan.order.of(of_all, scan.order.key(row))
    place_in_project = sa.func.row_number().over(partition_by=of_all.c.repository_id, order_by=order)
    numbered = sa.select(of_all, place_in_project.label("nth")).cte(f"numbered_{scan.table.name}")
    return scan.judged(numbered, numbered.c.nth == share, dialect)


def _share(scan: Scan, number: sa.ColumnElement[int]) -> sa.ColumnElement[int]:
    """Return the number of rows scanned per project, from the parameters `most` and `limit`."""
    each = bigint_param("most").op("/", return_type=sa.BigInteger())(number + sa.literal_column("1"))  # rounded down
    if scan.fits:
        return each + sa.literal_column(str(MIN_FILTERED_ROWS if scan.filtered else MIN_UNFILTERED_ROWS))
    enough = each * sa.literal_column(str(UNFILTERED_FACTOR)) + sa.literal_column(str(MIN_UNFILTERED_ROWS))
    return sa.case((bigint_param("limit") < enough, bigint_param("limit")), else_=enough)


def _scanned_in_project(scan: Scan, scope: Scope, dialect: str) -> sa.Select[Any]:
    most = bigint_param("most") if scan.rows is None else sa.literal_column(str(scan.rows), sa.BigInteger)
    row = scan.table.alias("stretch")
    top = scan.rows_in(row, bigint_param("repository_id"), dialect).limit(most)
    seen = top.subquery("seen")
    order = scan.order.of(seen, scan.order.key(row))
    counted: list[sa.Label[Any]] = [sa.func.row_number().over(order_by=order).label("nth")]
    if scan.characters is not None:
        counted.append((sa.func.sum(seen.c.size).over(order_by=order) - seen.c.size).label("before"))
    place = [bigint_param("repository_id").label("repository_id"), _insider(scope)]
    numbered = sa.select(seen, *counted, *place).cte(f"numbered_{scan.table.name}")
    # The limit only makes the database evaluate each condition once.
    judged = scan.judged(numbered, numbered.c.nth == most, dialect).limit(most)
    if dialect == "postgresql":  # ordered, so that PostgreSQL stops reading at the end of the page
        judged = judged.order_by(*scan.order.of(numbered, scan.order.key(row)))
    return judged


def found_by_words(scan: Scan, scope: Scope, matching: Condition, dialect: str, *narrower: Condition) -> sa.Select[Any]:
    """Select the rows that contain the words, using the full-text index, with the columns of `Scan.judged`.

    In one project, only the first of them are checked if there are other conditions. For `narrower`, see
    `visible_projects`.
    """
    table = scan.table
    has = sa.select(table.c.repository_id, *scan.columns(table, dialect)).where(
        matching, *(each(table) for each in scan.narrow)
    )
    if scope.project is None:
        place = visible_projects(scope, *narrower).each
        has = has.add_columns(place.c.insider).join(place, place.c.repository_id == table.c.repository_id)
    else:
        has = has.add_columns(_insider(scope)).where(table.c.repository_id == bigint_param("repository_id"))
        if scan.fits:
            found = has.subquery("found_words")
            order = scan.order.of(found, scan.order.key(table))
            nth = sa.func.row_number().over(order_by=order).label("nth")
            numbered = sa.select(found, nth).order_by(*order).limit(bigint_param("most")).cte("has_words")
            return scan.judged(numbered, numbered.c.nth == bigint_param("most"), dialect)
    return scan.judged(has.cte("has_words"), sa.false(), dialect)


def page_of(judged: sa.Select[Any] | sa.CompoundSelect[Any], order: Order, names: Collection[str]) -> sa.CTE:
    """Select the first `limit` rows that match or are the `last` of their project."""
    some = judged.subquery("judged")
    fitting = sa.select(some).where(sa.or_(some.c.fits, some.c.last))
    first = fitting.order_by(*order.of(some, names)).limit(bigint_param("limit"))
    return sa.select(first.subquery("first")).limit(ROWS_LIMIT).cte("page")


def size_of(page: sa.CTE, table: sa.Table, weight: Weight | None) -> sa.Select[Any]:
    if weight is None:
        return sa.select(page)
    weighed = sa.cast(weight, sa.BigInteger).label("weight")
    return sa.select(page, weighed).select_from(page.join(table, table.c.id == page.c.id))


def cut_to_size(weighed: sa.Select[Any] | sa.CompoundSelect[Any], order: Order, names: Collection[str]) -> sa.CTE:
    """Cut off the end of a page whose texts exceed the size of one response; a thousand invoices could take gigabytes.

    `weighed` may have no column `weight`. At least one row remains, and `page_found` is the number of rows before the
    cut.

    A generic plan expects few rows to match the conditions of `weighed`. Joins on the result must therefore not repeat
    these conditions, or the page may be searched again for each row. `weighed` itself must join no more than it needs,
    or all rows may be joined before they are sorted.
    """
    some = weighed.subquery("weighed")
    if "weight" not in some.c:
        return sa.select(some, sa.literal_column("0").label("page_found")).cte("sized")
    over = order.of(some, names)
    before = sa.cast(sa.func.sum(some.c.weight).over(order_by=over), sa.BigInteger) - some.c.weight
    every = sa.select(some, before.label("before"), sa.func.count().over().label("page_found")).subquery("every")
    return sa.select(every).where(every.c.before < PAGE_CHARS_LITERAL).cte("sized")


def with_place(whole: sa.Select[Any], page: sa.CTE, scope: Scope) -> sa.Select[Any]:
    """Join the projects of the rows for `Listing.whole`, unless the scope is one project."""
    return (
        whole if scope.project is not None else whole.join(projects, projects.c.repository_id == page.c.repository_id)
    )


def page_columns(page: sa.CTE, names: Collection[str]) -> list[sa.Label[Any]]:
    listed = [*names, "fits", "last", "found", "insider"]
    return [page.c[f"page_{name}" if name == "found" else name].label(f"page_{name}") for name in listed]


# --- the statement of a page ------------------------------------------------------------------------------------------


class StatementKey(NamedTuple):
    """The properties that determine a page's statement.

    `names` are the names of the filters, and `continues` is set for a page after a cursor. `large` means that the page
    is larger than the number of rows that PostgreSQL would search one by one, so it skips that search.
    """

    scope: Scope
    names: frozenset[str]
    order: Order
    continues: bool
    first: FirstRows | None = None
    large: bool = False


def _scan_of(listing: Listing[Any], chosen: StatementKey, dialect: str) -> Scan:
    order, one = chosen.order, chosen.scope.project
    filters = {name: each for name, each in listing.filters.items() if name in chosen.names}
    few, alone = any(each.few for each in filters.values()), any(each.alone for each in filters.values())
    narrows = {
        name
        for name, each in filters.items()
        if each.indexed or each.few or each.alone or (each.common and one is not None)
    }
    narrow = [filters[name].fits for name in sorted(narrows)]
    others = sorted(filters.keys() - narrows)
    fits, reads = [filters[name].fits for name in others], {each for name in others for each in filters[name].reads}
    if listing.index_condition is not None and not alone:
        narrow.append(listing.index_condition)
    if (seen := listing.is_visible) is not None:
        if one is not None:
            narrow.append(lambda row: seen(row, sa.true() if one else sa.false()))
        elif not chosen.scope.team_only:
            fits.append(lambda row: seen(row, row.c.insider == 1))
            reads |= set(listing.reads)
    if chosen.continues:
        narrow.append(lambda row: order.after_cursor(order.key(row)))
    scan = Scan(listing.table, order, narrow, sorted(reads), fits, filtered=bool(others), few=few, alone=alone)
    if chosen.first is None or (chosen.large and dialect == "postgresql"):
        return scan
    if dialect == "sqlite":
        return replace(scan, words=listing.words, rows=chosen.first.sqlite_rows)
    return replace(scan, words=listing.words, rows=chosen.first.postgresql_rows, characters=chosen.first.characters)


def _weighed(listing: Listing[Any], chosen: StatementKey, dialect: str) -> sa.Select[Any]:
    scan, scope = _scan_of(listing, chosen, dialect), chosen.scope
    names = scan.order.key(scan.table)
    matching = listing.words.matching if listing.words and "q" in chosen.names and scan.words is None else None
    if scope.project is not None and not scan.fits and scan.words is None and matching is None:
        found = scan.rows_in(scan.table, bigint_param("repository_id"), dialect).limit(bigint_param("limit"))
        constants = [sa.true().label("fits"), sa.false().label("last")]
        found = found.add_columns(scan.table.c.repository_id.label("repository_id"), _insider(scope), *constants)
        return found if listing.weight is None else found.add_columns(listing.weight.label("weight"))
    of = [listing.filters[name].project for name in sorted(chosen.names & listing.filters.keys())]
    narrower = [projects.c.repository_id == each for each in of if each is not None]
    if matching is not None:
        judged = found_by_words(scan, scope, matching, dialect, *narrower)
    elif scope.project is not None:
        judged = _scanned_in_project(scan, scope, dialect)
    else:
        judged = select_scanned(scan, visible_projects(scope, *narrower), dialect)
    return size_of(page_of(judged, scan.order, names), listing.table, listing.weight)


@lru_cache(maxsize=2048)  # few of the combinations are used
def _statement(listing: Listing[Any], chosen: StatementKey) -> PerDialect:
    def make(dialect: str) -> sa.Select[Any]:
        names = chosen.order.key(listing.table)
        page = cut_to_size(_weighed(listing, chosen, dialect), chosen.order, names)
        whole = listing.whole(page, chosen.scope)
        if chosen.scope.project is None:
            whole = whole.add_columns(*place_columns)
        return whole.add_columns(*page_columns(page, names)).order_by(*chosen.order.of(page, names))

    return PerDialect.made_by(make)


async def read(
    reader: Reader,
    listing: Listing[T],
    source: Source,
    filters: Mapping[str, object],
    *,
    order: Order | None = None,
    after: Key | None,
    limit: int,
    first: FirstRows | None = None,
) -> Rows[T]:
    """Read up to `limit` rows after the key `after` that match the filters, given by parameter name."""
    order = order or listing.order
    names = list(order.key(listing.table))
    most = MAX_SCANNED_ROWS if source.scope.project is None else MAX_SCANNED_ROWS_IN_PROJECT
    params = {**source.params, **filters, "limit": limit, "most": most, **after_params(names, after)}
    large = first is not None and limit > first.postgresql_rows
    chosen = StatementKey(source.scope, frozenset(filters), order, after is not None, first, large)
    rows = await reader.fetch_all(_statement(listing, chosen), params)
    return read_page(rows, names, source, listing.make, limit)


async def read_for(
    call: Call, listing: Listing[T], source: Source, query: ListQuery, after: Key | None, **filters: object
) -> tuple[Sequence[T], Mapping[str, str]]:
    """Read the requested page and return it with the response headers."""
    found = await read(call.database, listing, source, filters, after=after, limit=query.limit + 1)
    return lists.page(call, found, query)


def read_page(
    rows: Sequence[Row], names: Sequence[str], source: Source, make: Callable[[Row, ProjectRef, Source], T], limit: int
) -> Rows[T]:
    found, labels = Rows[T](), [f"page_{name}" for name in names]
    for row in rows:
        key = tuple([row[label] for label in labels])
        if row["page_fits"]:
            found.add(make(row, source.place or read_place(row, source.actor), source), key)
        if row["page_last"]:  # rows of other projects may follow, but later rows of this one were not scanned
            found.next_key = key
            return found
    found.truncated = is_cut(rows)
    found.next_key = found.keys[-1] if found.truncated or (rows and len(rows) == limit) else None
    return found


def is_cut(rows: Sequence[Row]) -> bool:
    """Return whether `cut_to_size` dropped rows of the page."""
    return bool(rows) and len(rows) < rows[0]["page_found"]


def after_params(names: Sequence[str], after: Key | None) -> dict[str, object]:
    return {} if after is None else {f"after_{name}": value for name, value in zip(names, after, strict=True)}


def cursor_of(query: ListQuery, order: Order = BY_ID) -> Key | None:
    """Return the key after which the page starts. Raises `Invalid`."""
    after: Key | None = lists.after(query, order.cursor)
    return after


async def iterate_pages(ask: Callable[[Key | None], Awaitable[Rows[T]]], first: Rows[T]) -> AsyncIterator[Rows[T]]:
    """Yield all pages of a list: `first`, then the following ones, which `ask` fetches."""
    yield first
    while first.next_key is not None:
        first = await ask(first.next_key)
        yield first


async def read_all(reader: Reader, listing: Listing[T], source: Source, **filters: object) -> list[T]:
    """Read the whole list."""

    def ask(after: Key | None) -> Awaitable[Rows[T]]:
        return read(reader, listing, source, filters, after=after, limit=WHOLE_LIST_MAX)

    return [each async for page in iterate_pages(ask, await ask(None)) for each in page]
