"""The SQL of a project's tasks, with filters and in every order.

A statement is made for each combination of filters that is asked for, once.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import sqlalchemy as sa
from msgspec import UNSET

from workhook.identity.queries import key_of
from workhook.identity.tables import accounts
from workhook.storage import Reader
from workhook.storage.metadata import big
from workhook.storage.statements import PerDialect
from workhook.work.access import Access
from workhook.work.search.match import task_matches, words_of
from workhook.work.tasks import assignees
from workhook.work.tasks.queries import project_of
from workhook.work.tasks.rows import every_column, is_cut, no_more_than_a_page, on_page, task_of, weight, with_column
from workhook.work.tasks.schemas import Task, TasksQuery
from workhook.work.tasks.tables import task_assignees, tasks

Key = tuple[int | str, str]
"""The value that the list is sorted by, and the id of the task."""

_LATER_THAN_ALL, _EARLIER_THAN_ALL = 1 << 62, -1

_conditions: dict[str, sa.ColumnElement[bool]] = {
    "priority": tasks.c.priority == sa.bindparam("priority"),
    "assignee": sa.exists().where(
        task_assignees.c.task_id == tasks.c.id,
        task_assignees.c.user_id == accounts.c.id,
        accounts.c.login_key == sa.bindparam("assignee"),
    ),
    "deadline_before": tasks.c.deadline < big("deadline_before"),
    "deadline_after": tasks.c.deadline > big("deadline_after"),
    "finished": tasks.c.completed_at.is_not(None) == sa.bindparam("finished", type_=sa.Boolean()),
    "q": task_matches(),
}


def _has_label(dialect: str) -> sa.ColumnElement[bool]:
    """Labels are a JSON array."""
    if dialect == "sqlite":
        each = sa.func.json_each(tasks.c.labels).table_valued("value")
    else:
        each = sa.func.json_array_elements_text(sa.cast(tasks.c.labels, sa.JSON)).table_valued("value")
    return sa.exists().select_from(each).where(sa.cast(each.c.value, sa.Text) == sa.bindparam("label", type_=sa.Text()))


def _sort_key(sort: str) -> sa.ColumnElement[int | str]:
    """Tasks without a deadline come last, whichever way it goes."""
    column = tasks.c[sort.removeprefix("-")]
    if column is not tasks.c.deadline:
        return column
    return sa.func.coalesce(
        column, sa.literal(_EARLIER_THAN_ALL if sort.startswith("-") else _LATER_THAN_ALL, sa.BigInteger)
    )


def _select(filters: frozenset[str], sort: str, continues: bool, dialect: str) -> sa.Select[tuple[object, ...]]:
    key = _sort_key(sort)
    falling = sort.startswith("-")
    fitting = (
        sa.select(tasks.c.id, key.label("sort_key"), weight.label("weight"))
        .where(tasks.c.repository_id == big("repository_id"), tasks.c.deleted_at.is_(None))
        .where(*(_has_label(dialect) if name == "label" else _conditions[name] for name in sorted(filters)))
        .order_by(*_in_order(falling, key, tasks.c.id))
        .limit(big("limit"))
    )
    if continues:
        pair = sa.tuple_(key, tasks.c.id)
        behind = sa.tuple_(sa.bindparam("after_key", type_=key.type), sa.bindparam("after_id", type_=sa.Text()))
        fitting = fitting.where(pair < behind if falling else pair > behind)
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


@lru_cache(maxsize=512)
def _statement(filters: frozenset[str], sort: str, continues: bool) -> PerDialect:
    return PerDialect(
        sqlite=_select(filters, sort, continues, "sqlite"), postgresql=_select(filters, sort, continues, "postgresql")
    )


def params_of(query: TasksQuery) -> dict[str, object]:
    """The filters that are given, as the statements take them."""
    given = {name: getattr(query, name) for name in (*_conditions, "label")}
    params = {name: value for name, value in given.items() if value is not UNSET}
    if "assignee" in params:
        params["assignee"] = key_of(str(params["assignee"]))
    if "q" in params:
        params["q"] = words_of(str(params["q"]))
    return params


async def list_tasks(
    reader: Reader, access: Access, filters: Mapping[str, object], *, sort: str, after: Key | None, limit: int
) -> tuple[list[tuple[Task, Key]], bool]:
    """What fits every filter, as `params_of` gives them, each with its sort key, and whether that is cut
    (`pages.PAGE_CHARS`); `after` is the key to start behind. A client finds nothing by the name of
    somebody whom it does not see."""
    if access.is_client and "assignee" in filters:
        name = str(filters["assignee"])
        if name not in (await assignees.find_people(reader, access, [name])).by_name:
            return [], False
    params: dict[str, object] = {**filters, "repository_id": access.repository.id, "limit": limit}
    if after is not None:
        params["after_key"], params["after_id"] = after
    rows = await reader.fetch_all(_statement(frozenset(filters), sort, after is not None), params)
    project = project_of(access)
    return [(task_of(row, project), (row["sort_key"], row["task_id"])) for row in rows], is_cut(rows)
