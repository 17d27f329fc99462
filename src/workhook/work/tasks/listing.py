"""The SQL of a project's tasks, with filters and in every order.

A statement is made for each combination of filters that is asked for, once. Each walks through the tasks in the order
of the list, by an index, and takes what fits. There is no index for a filter and an order together: a page looks at
`LOOKS_AT_MOST` tasks, and the next one goes on from there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import sqlalchemy as sa
from msgspec import UNSET

from workhook.identity.queries import key_of
from workhook.identity.tables import accounts
from workhook.storage import Reader, Row
from workhook.storage.metadata import big
from workhook.storage.statements import PerDialect
from workhook.work.access import Access
from workhook.work.pages import LOOKS_AT_MOST
from workhook.work.search.match import task_matches, words_of
from workhook.work.tasks import assignees
from workhook.work.tasks.queries import project_of
from workhook.work.tasks.rows import every_column, is_cut, no_more_than_a_page, on_page, task_of, weight, with_column
from workhook.work.tasks.schemas import Task, TasksQuery
from workhook.work.tasks.tables import EARLIER_THAN_ALL, LATER_THAN_ALL, task_assignees, tasks

Key = tuple[int | str, str]
"""The value that the list is sorted by, and the id of the task."""

# What the filters look at, of those that a page looks at, and the conditions.
_FILTERED = ("id", "repository_id", "title", "description", "priority", "deadline", "labels", "completed_at")


def _conditions(some: sa.FromClause, dialect: str) -> Mapping[str, Callable[[], sa.ColumnElement[bool]]]:
    return {
        "priority": lambda: some.c.priority == sa.bindparam("priority"),
        # Asked of each that is looked at, by its key: EXISTS may become a join with all that the person has.
        "assignee": lambda: _assigned(some).is_not(None),
        "label": lambda: _has_label(some, dialect),
        "deadline_before": lambda: some.c.deadline < big("deadline_before"),
        "deadline_after": lambda: some.c.deadline > big("deadline_after"),
        "finished": lambda: some.c.completed_at.is_not(None) == sa.bindparam("finished", type_=sa.Boolean()),
    }


def _assigned(some: sa.FromClause) -> sa.ColumnElement[int | None]:
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


def _sort_key(sort: str) -> sa.ColumnElement[int | str]:
    """Tasks without a deadline come last, whichever way it goes. Each has an index."""
    column = tasks.c[sort.removeprefix("-")]
    if column is not tasks.c.deadline:
        return column
    last = EARLIER_THAN_ALL if sort.startswith("-") else LATER_THAN_ALL
    return sa.func.coalesce(column, sa.literal_column(str(last), sa.BigInteger))


def _walk(sort: str, *, continues: bool, matches: bool, ends: bool = False) -> sa.Select[Any]:
    """Of the project, in order, behind a key if it `continues`, and up to one if it `ends`.

    SQLite finds no pair with an expression by an index: each bound names the key alone, too."""
    key, falling = _sort_key(sort), sort.startswith("-")
    walk = (
        sa.select(*(tasks.c[name] for name in _FILTERED), key.label("sort_key"), weight.label("weight"))
        .where(tasks.c.repository_id == big("repository_id"), tasks.c.deleted_at.is_(None))
        .order_by(*_in_order(falling, key, tasks.c.id))
    )
    if matches:
        walk = walk.where(task_matches())
    pair = sa.tuple_(key, tasks.c.id)
    if continues:
        first = sa.bindparam("after_key", type_=key.type)
        behind = sa.tuple_(first, sa.bindparam("after_id", type_=sa.Text()))
        walk = walk.where(*((key <= first, pair < behind) if falling else (key >= first, pair > behind)))
    if ends:
        last = sa.bindparam("upto_key", type_=key.type)
        upto = sa.tuple_(last, sa.bindparam("upto_id", type_=sa.Text()))
        walk = walk.where(*((key >= last, pair >= upto) if falling else (key <= last, pair <= upto)))
    return walk


def _select(
    filters: frozenset[str], sort: str, continues: bool, ends: bool, dialect: str
) -> sa.Select[tuple[object, ...]]:
    falling = sort.startswith("-")
    walk = _walk(sort, continues=continues, matches="q" in filters, ends=ends)
    if filters <= {"q"}:
        fitting = walk.limit(big("limit")).with_only_columns(
            tasks.c.id, *(each for each in walk.selected_columns if each.name in ("sort_key", "weight"))
        )
    else:
        seen = walk.limit(big("most")).subquery("seen")
        conditions = _conditions(seen, dialect)
        fitting = (
            sa.select(seen.c.id, seen.c.sort_key, seen.c.weight)
            .where(*(conditions[name]() for name in sorted(filters - {"q"})))
            .order_by(*_in_order(falling, seen.c.sort_key, seen.c.id))
            .limit(big("limit"))
        )
    some = fitting.subquery("some")
    sized = no_more_than_a_page(some, *_in_order(falling, some.c.sort_key, some.c.id))
    return (
        sa.select(*every_column, sized.c.sort_key, sized.c.found)
        .select_from(with_column.join(sized, sized.c.id == tasks.c.id))
        .where(on_page(sized))
        .order_by(*_in_order(falling, sized.c.sort_key, sized.c.id))
    )


def _in_order(falling: bool, *key: sa.ColumnElement[Any]) -> list[sa.ColumnElement[Any]]:
    return [each.desc() if falling else each for each in key]


_ALL = 2**62
"""SQLite looks at what is to be seen by the index of its order only where there is a limit."""


@lru_cache(maxsize=512)
def _statement(filters: frozenset[str], sort: str, continues: bool, ends: bool) -> PerDialect:
    sqlite, postgresql = (_select(filters, sort, continues, ends, dialect) for dialect in ("sqlite", "postgresql"))
    return PerDialect(sqlite=sqlite, postgresql=postgresql)


@lru_cache(maxsize=64)
def _last_seen(sort: str, continues: bool, matches: bool) -> sa.Select[Any]:
    """The key of the last task that a page looks at, if it looks at as many as it may."""
    walk = _walk(sort, continues=continues, matches=matches)
    only = walk.with_only_columns(_sort_key(sort).label("sort_key"), tasks.c.id)
    return only.offset(big("most") - 1).limit(1)


def params_of(query: TasksQuery) -> dict[str, object]:
    """The filters that are given, as the statements take them."""
    names = ("priority", "assignee", "label", "deadline_before", "deadline_after", "finished", "q")
    params = {name: value for name in names if (value := getattr(query, name)) is not UNSET}
    if "assignee" in params:
        params["assignee"] = key_of(str(params["assignee"]))
    if "q" in params:
        params["q"] = words_of(str(params["q"]))
    return params


class Listed(NamedTuple):
    """`tasks`, each with its sort key. `cut`: there would be more (`pages.PAGE_CHARS`). `last_seen`: the key behind
    which nothing was looked at, where the page is not full for that."""

    tasks: list[tuple[Task, Key]]
    cut: bool = False
    last_seen: Key | None = None


async def list_tasks(
    reader: Reader, access: Access, filters: Mapping[str, object], *, sort: str, after: Key | None, limit: int
) -> Listed:
    """What fits every filter, as `params_of` gives them; `after` is the key to start behind. A client finds nothing by
    the name of somebody whom it does not see."""
    if access.is_client and "assignee" in filters:
        name = str(filters["assignee"])
        if name not in (await assignees.find_people(reader, access, [name])).by_name:
            return Listed([])
    params: dict[str, object] = {
        **filters,
        "repository_id": access.repository.id,
        "limit": limit,
        "most": LOOKS_AT_MOST,
    }
    if after is not None:
        params["after_key"], params["after_id"] = after
    names, continues, last_seen = frozenset(filters), after is not None, None
    rows = await reader.fetch_all(_statement(names, sort, continues, ends=False), params)
    if not _is_full(rows, limit) and not names <= {"q"}:
        last = await reader.fetch_one(_last_seen(sort, continues, "q" in filters), params)
        if last is not None:
            # Once more up to there: somebody may have written since the page was read, and moved what is behind it.
            last_seen = (last["sort_key"], last["id"])
            params["upto_key"], params["upto_id"] = last_seen
            params["most"] = _ALL  # what was created before the end since then must not push others behind it
            rows = await reader.fetch_all(_statement(names, sort, continues, ends=True), params)
    project = project_of(access)
    found = [(task_of(row, project), (row["sort_key"], row["task_id"])) for row in rows]
    return Listed(found, cut=is_cut(rows), last_seen=None if _is_full(rows, limit) else last_seen)


def _is_full(rows: Sequence[Row], limit: int) -> bool:
    return is_cut(rows) or len(rows) == limit
