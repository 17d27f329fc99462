"""The SQL of a project's tasks, with filters and in every order.

A statement is made for each combination of filters that is asked for, once. Each walks through the tasks in the order
of the list, by an index, and takes what fits. There is no index for a filter and an order together: a page looks at
`LOOKS_AT_MOST` tasks, and the next one goes on from there.

Words are looked for among the first tasks of the list: where they are common, these fill the page. Otherwise the index
of words finds all that have them, which are sorted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import sqlalchemy as sa
from msgspec import UNSET

from workhook.core.clock import DAY_MS
from workhook.identity.queries import key_of
from workhook.identity.tables import accounts
from workhook.storage import Reader, Row
from workhook.storage.metadata import big
from workhook.storage.statements import PerDialect
from workhook.work.board.tasks import assignees
from workhook.work.board.tasks.inputs import TaskFilters
from workhook.work.board.tasks.matching import (
    FOUND_NUMBER,
    are_found,
    matches,
    number_of,
    task_matches,
    words_of,
)
from workhook.work.board.tasks.queries import project_of
from workhook.work.board.tasks.schemas import (
    EARLIER_THAN_ALL,
    LATER_THAN_ALL,
    Task,
    TaskProjectShape,
    every_column,
    task_assignees,
    task_of,
    tasks,
    waits_for_open,
    weight,
    with_column,
)
from workhook.work.board.tasks.search_indexes import SEARCHED
from workhook.work.kernel.access import Access
from workhook.work.kernel.day_bounds import deadline_params, zone_named
from workhook.work.kernel.pages import LOOKS_AT_MOST, PAGE_CHARS, length

Key = tuple[int | str, str]
"""The value that the list is sorted by, and the id of the task."""


def no_more_than_a_page(some: sa.Subquery, *order: sa.ColumnElement[Any]) -> sa.Subquery:
    """The tasks that `some` selects by `id` with their `weight`, in this order: `weight_before` is that of all those
    before it, `found` how many there are."""
    before = (sa.func.sum(some.c.weight).over(order_by=order) - some.c.weight).label("weight_before")
    return sa.select(some, before, sa.func.count().over().label("found")).subquery("sized")


def on_page(sized: sa.Subquery) -> sa.ColumnElement[bool]:
    return sized.c.weight_before < sa.literal_column(str(PAGE_CHARS), sa.BigInteger)


def conditions_of(some: sa.CTE, dialect: str) -> Mapping[str, Callable[[], sa.ColumnElement[bool]]]:
    """The condition of each filter, about tasks that were read before, with the columns of `ASKED`."""
    return {
        "priority": lambda: some.c.priority == sa.bindparam("priority"),
        # Asked of each that is looked at, by its key: EXISTS may become a join with all that the person has.
        "assignee": lambda: is_assigned(some).is_not(None),
        "label": lambda: _has_label(some, dialect),
        # A deadline is a day or a moment; each of both conditions is about one kind.
        "deadline_before_day": lambda: sa.or_(~_is_day(some), some.c.deadline < big("deadline_before_day")),
        "deadline_before_moment": lambda: sa.or_(_is_day(some), some.c.deadline < big("deadline_before_moment")),
        "deadline_after_day": lambda: sa.or_(~_is_day(some), some.c.deadline > big("deadline_after_day")),
        "deadline_after_moment": lambda: sa.or_(_is_day(some), some.c.deadline > big("deadline_after_moment")),
        "finished": lambda: some.c.completed_at.is_not(None) == sa.bindparam("finished", type_=sa.Boolean()),
        "parent_id": lambda: some.c.parent_id == sa.bindparam("parent_id"),
        "blocked": lambda: waits_for_open(some).is_not(None) == sa.bindparam("blocked", type_=sa.Boolean()),
        "q": lambda: _has_words(some, dialect),
    }


def _is_day(some: sa.FromClause) -> sa.ColumnElement[bool]:
    """Null of a task without a deadline, which so fits no bound."""
    return some.c.deadline % sa.literal_column(str(DAY_MS), sa.BigInteger) == sa.literal_column("0")


def is_assigned(some: sa.FromClause) -> sa.ColumnElement[int | None]:
    person = sa.select(accounts.c.id).where(accounts.c.login_key == sa.bindparam("assignee")).scalar_subquery()
    return (
        sa.select(task_assignees.c.user_id)
        .where(task_assignees.c.task_id == some.c.id, task_assignees.c.user_id == person)
        .scalar_subquery()
    )


def _has_label(some: sa.FromClause, dialect: str) -> sa.ColumnElement[bool]:
    """Labels are a JSON array."""
    if dialect == "sqlite":
        each = sa.func.json_each(some.c.labels).table_valued("value")
    else:
        each = sa.func.json_array_elements_text(sa.cast(some.c.labels, sa.JSON)).table_valued("value")
    return sa.exists().select_from(each).where(sa.cast(each.c.value, sa.Text) == sa.bindparam("label", type_=sa.Text()))


def _has_words(some: sa.CTE, dialect: str) -> sa.ColumnElement[bool]:
    if dialect == "sqlite":
        return are_found(some, tasks)
    return matches(tasks, some)


def sort_key(sort: str, row: sa.FromClause = tasks) -> sa.ColumnElement[int | str]:
    """Tasks without a deadline come last, whichever way it goes. Each has an index."""
    name = sort.removeprefix("-")
    column: sa.ColumnElement[int | str] = row.c[name]
    if name != "deadline":
        return column
    last = EARLIER_THAN_ALL if sort.startswith("-") else LATER_THAN_ALL
    return sa.func.coalesce(column, sa.literal_column(str(last), sa.BigInteger))


class Bound(NamedTuple):
    """How many rows a page looks at, and how many `characters` of them where it searches their texts for words."""

    rows: sa.ColumnElement[int]
    characters: int | None = None


class Firsts(NamedTuple):
    """How many of the first tasks are searched for words, one by one. On SQLite the index of words tells whether a task
    has them. PostgreSQL parses the text of each task, which costs more than reading it."""

    sqlite_rows: int
    postgresql_rows: int
    characters: int

    def of(self, dialect: str) -> Bound:
        if dialect == "sqlite":
            return Bound(sa.literal_column(str(self.sqlite_rows), sa.BigInteger))
        return Bound(sa.literal_column(str(self.postgresql_rows), sa.BigInteger), self.characters)


FIRSTS = Firsts(sqlite_rows=1_000, postgresql_rows=200, characters=30_000)
_ALL_LOOKED_AT = Bound(big("most"))

# What a filter asks of a task, besides its id.
ASKED: Mapping[str, Sequence[str]] = {
    "priority": ["priority"],
    "label": ["labels"],
    "deadline_before_day": ["deadline"],
    "deadline_before_moment": ["deadline"],
    "deadline_after_day": ["deadline"],
    "deadline_after_moment": ["deadline"],
    "finished": ["completed_at"],
    "parent_id": ["parent_id"],
}
# Looked through for words on PostgreSQL; SQLite's index knows by the id. The number of a task is one of them.
_SEARCHED = SEARCHED[tasks.name]


def _walk(sort: str, *, continues: bool, of_parent: bool) -> sa.Select[Any]:
    """The tasks of the project, or of a parent, in order, behind a key if it `continues`.

    SQLite finds no pair with an expression by an index: the bound names the key alone, too."""
    key, falling = sort_key(sort), sort.startswith("-")
    place: sa.ColumnElement[bool] = tasks.c.repository_id == big("repository_id")
    if of_parent:  # they are few: their index finds them, and not that of the order
        place = sa.and_(
            tasks.c.parent_id == sa.bindparam("parent_id"),
            tasks.c.repository_id + sa.literal_column("0") == big("repository_id"),
        )
    walk = (
        sa.select(tasks.c.id, key.label("sort_key"))
        .where(place, tasks.c.deleted_at.is_(None))
        .order_by(*_in_order(falling, *([key] if key is tasks.c.id else [key, tasks.c.id])))
    )
    if continues:
        first = sa.bindparam("after_key", type_=key.type)
        pair, behind = sa.tuple_(key, tasks.c.id), sa.tuple_(first, sa.bindparam("after_id", type_=sa.Text()))
        walk = walk.where(*((key <= first, pair < behind) if falling else (key >= first, pair > behind)))
    return walk


def _looked_at(walk: sa.Select[Any], filters: frozenset[str], falling: bool, bound: Bound, dialect: str) -> sa.Subquery:
    """The first tasks of a walk that fit, and the `last` task whether it `fits` or not: more may follow it. With a
    bound of characters the last task is the first that exceeds it, and is not looked at."""
    seen = walk.add_columns(*_asked_columns(filters, bound, dialect)).limit(bound.rows).subquery("seen")
    order = _in_order(falling, seen.c.sort_key, seen.c.id)
    counted: list[sa.ColumnElement[Any]] = [sa.func.row_number().over(order_by=order).label("place")]
    if bound.characters is not None:
        counted.append((sa.func.sum(seen.c.size).over(order_by=order) - seen.c.size).label("before"))
    numbered = sa.select(seen, *counted).cte("numbered")
    conditions = conditions_of(numbered, dialect)
    fits: sa.ColumnElement[bool] = sa.and_(*(conditions[name]() for name in sorted(filters)))
    last: sa.ColumnElement[bool] = numbered.c.place == bound.rows
    if bound.characters is not None:
        most = sa.literal_column(str(bound.characters), sa.BigInteger)
        too_much = numbered.c.before + numbered.c.size > most
        fits, last = sa.case((too_much, sa.false()), else_=fits), sa.or_(last, too_much) & (numbered.c.before <= most)
    # The limit changes nothing, but that each condition is asked once.
    judged = sa.select(numbered.c.id, numbered.c.sort_key, fits.label("fits"), last.label("last")).limit(bound.rows)
    if dialect == "postgresql":  # which reads no further than the page then
        judged = judged.order_by(*_in_order(falling, numbered.c.sort_key, numbered.c.id))
    some = judged.subquery("judged")
    fitting = (
        sa.select(some)
        .where(sa.or_(some.c.fits, some.c.last))
        .order_by(*_in_order(falling, some.c.sort_key, some.c.id))
        .limit(big("limit"))
        .subquery("fitting")
    )
    return (
        sa.select(tasks.c.id, fitting.c.sort_key, fitting.c.fits, fitting.c.last, weight.label("weight"))
        .select_from(fitting.join(tasks, tasks.c.id == fitting.c.id))
        .subquery("some")
    )


def _asked_columns(filters: frozenset[str], bound: Bound, dialect: str) -> list[sa.ColumnElement[Any]]:
    names = sorted({name for each in filters for name in ASKED.get(each, ())})
    columns: list[sa.ColumnElement[Any]] = [tasks.c[name] for name in names]
    if "q" in filters and dialect == "sqlite":
        columns.append(number_of(tasks.c.id).label(FOUND_NUMBER))
    if bound.characters is not None:
        columns += [tasks.c[name] for name in _SEARCHED.columns]
        columns.append(length(*(tasks.c[name] for name in _SEARCHED.words)).label("size"))
    return columns


def _select(filters: frozenset[str], sort: str, continues: bool, firsts: Firsts | None, dialect: str) -> sa.Select[Any]:
    """The statement of a list. With `firsts`, words are searched for among these alone; without, by their index."""
    walk, falling = _walk(sort, continues=continues, of_parent="parent_id" in filters), sort.startswith("-")
    filters = filters - {"parent_id"}
    if "q" in filters and firsts is None:
        walk, filters = walk.where(task_matches()), filters - {"q"}
    if filters:
        bound = _ALL_LOOKED_AT if firsts is None else firsts.of(dialect)
        some = _looked_at(walk, filters, falling, bound, dialect)
    else:
        constants = (sa.true().label("fits"), sa.false().label("last"), weight.label("weight"))
        some = walk.add_columns(*constants).limit(big("limit")).subquery("some")
    sized = no_more_than_a_page(some, *_in_order(falling, some.c.sort_key, some.c.id))
    return (
        sa.select(*every_column, sized.c.sort_key, sized.c.found, sized.c.fits, sized.c.last)
        .select_from(with_column.join(sized, sized.c.id == tasks.c.id))
        .where(on_page(sized))
        .order_by(*_in_order(falling, sized.c.sort_key, sized.c.id))
    )


def _in_order(falling: bool, *key: sa.ColumnElement[Any]) -> list[sa.ColumnElement[Any]]:
    return [each.desc() if falling else each for each in key]


@lru_cache(maxsize=512)
def _statement(
    filters: frozenset[str], sort: str, continues: bool, firsts: Firsts | None = None, large: bool = False
) -> PerDialect:
    """`large`: the page is larger than the number of first tasks on PostgreSQL, so these are not searched there."""
    sqlite = _select(filters, sort, continues, firsts, "sqlite")
    postgresql = _select(filters, sort, continues, None if large else firsts, "postgresql")
    return PerDialect(sqlite=sqlite, postgresql=postgresql)


def params_of(query: TaskFilters) -> dict[str, object]:
    """The filters that are given, as the statements take them."""
    names = (
        "priority",
        "assignee",
        "label",
        "finished",
        "parent_id",
        "blocked",
        "q",
    )
    params = {name: value for name in names if (value := getattr(query, name)) is not UNSET}
    params |= deadline_params(before=query.deadline_before, after=query.deadline_after, zone=zone_named(query.timezone))
    if "assignee" in params:
        params["assignee"] = key_of(str(params["assignee"]))
    if "q" in params:
        params["q"] = words_of(str(params["q"]))
    return params


class TaskPage(NamedTuple):
    """`tasks`, each with its sort key. `cut`: the page ended early (`pages.PAGE_CHARS`). `last_seen`: the key of the
    last task that was looked at, if there may be more behind it."""

    tasks: list[tuple[Task, Key]]
    cut: bool = False
    last_seen: Key | None = None


async def may_ask(reader: Reader, access: Access, filters: Mapping[str, object]) -> bool:
    """Whether the caller sees the person that tasks are filtered by: a client does not see everybody."""
    if not access.is_client or "assignee" not in filters:
        return True
    name = str(filters["assignee"])
    return name in (await assignees.find_people(reader, access, [name])).by_name


async def list_tasks(
    reader: Reader, access: Access, filters: Mapping[str, object], *, sort: str, after: Key | None, limit: int
) -> TaskPage:
    """The tasks that fit every filter of `params_of`; `after` is the key to start behind. A client finds nothing by the
    name of a person whom it does not see."""
    if not await may_ask(reader, access, filters):
        return TaskPage([])
    params: dict[str, object] = {
        **filters,
        "repository_id": access.repository.id,
        "limit": limit,
        "most": LOOKS_AT_MOST,
    }
    if after is not None:
        params["after_key"], params["after_id"] = after
    names, continues, project = frozenset(filters), after is not None, project_of(access)
    if "q" in filters:
        first = _statement(names, sort, continues, FIRSTS, limit > FIRSTS.postgresql_rows)
        page = _page(await reader.fetch_all(first, params), project)
        if page.cut or page.last_seen is None or len(page.tasks) == limit:
            return page
    return _page(await reader.fetch_all(_statement(names, sort, continues), params), project)


def _page(rows: Sequence[Row], project: TaskProjectShape) -> TaskPage:
    found = [(task_of(row, project), (row["sort_key"], row["task_id"])) for row in rows if row["fits"]]
    last = next(((row["sort_key"], row["task_id"]) for row in rows if row["last"]), None)
    return TaskPage(found, cut=bool(rows) and len(rows) < rows[0]["found"], last_seen=last)
