"""Read a column and its tasks with one statement that returns the tasks as one JSON text.

This costs half as much as reading rows: on SQLite, each row releases and reacquires the interpreter lock, and each
value is looked up by name.

A response has at most `list_statements.PAGE_CHARS` characters of text. Summing the lengths takes up to 40 % of the time
to read a page, and few pages come near the limit. Therefore a page is first read without the sum, and with only the
sizes of large tasks. If these fit into the response, they are then read by ID; otherwise the page is read again, with
the sum.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from operator import itemgetter
from types import GenericAlias
from typing import Any, NamedTuple

import msgspec
import sqlalchemy as sa

from workhook.core.errors import require_found
from workhook.core.records import Wire
from workhook.identity.schemas import Actor
from workhook.storage import Reader
from workhook.storage.dialects import any_of, json_rows
from workhook.storage.metadata import bigint_param
from workhook.storage.record_rows import form_reader, shown_names
from workhook.storage.statements import PerDialect, hot
from workhook.work.board.tasks.assignees import seen_people
from workhook.work.board.tasks.imported_fields import own_fields
from workhook.work.board.tasks.queries import project_of
from workhook.work.board.tasks.schemas import (
    NO_SUBTASKS,
    TERMS,
    Task,
    TaskColumnShape,
    assignees,
    blockers,
    blockers_of,
    columns,
    people_of,
    subtasks,
    subtasks_of,
    task_assignees,
    task_blockers,
    task_buckets,
    tasks,
    weight,
)
from workhook.work.kernel.access import Access, find_with_access, to_access, with_access
from workhook.work.kernel.list_statements import PAGE_CHARS, PAGE_CHARS_LITERAL, ROWS_LIMIT

_page = (
    sa.select(tasks.c.id, task_buckets.c.rank.label("bucket_rank"), tasks.c.rank.label("rank"), weight.label("weight"))
    .select_from(task_buckets.join(tasks, tasks.c.bucket_id == task_buckets.c.id))
    .where(task_buckets.c.column_id == sa.bindparam("column_id"))
    .order_by(task_buckets.c.rank, tasks.c.rank, tasks.c.id)
)
_next_page = _page.where(
    task_buckets.c.rank >= bigint_param("bucket_rank"),
    sa.or_(task_buckets.c.rank > bigint_param("bucket_rank"), tasks.c.rank > bigint_param("rank")),
)
# The number of tasks before a page.
_buckets_passed = sa.select(sa.cast(sa.func.coalesce(sa.func.sum(task_buckets.c.size), 0), sa.BigInteger)).where(
    task_buckets.c.column_id == sa.bindparam("column_id"), task_buckets.c.rank < bigint_param("bucket_rank")
)
_tasks_passed = (
    sa.select(sa.func.count())
    .select_from(tasks.join(task_buckets, task_buckets.c.id == tasks.c.bucket_id))
    .where(
        task_buckets.c.column_id == sa.bindparam("column_id"),
        task_buckets.c.rank == bigint_param("bucket_rank"),
        tasks.c.rank <= bigint_param("rank"),
    )
)
_children = tasks.alias("children")


def _some(page: sa.Select[Any], dialect: str) -> sa.CTE:
    if dialect == "sqlite":  # SQLite would fetch all `ROWS_LIMIT` rows
        return page.limit(bigint_param("limit")).cte("some")
    most = page.limit(ROWS_LIMIT).subquery("most")
    return sa.select(most).order_by(most.c.bucket_rank, most.c.rank, most.c.id).limit(bigint_param("limit")).cte("some")


def _of_light_page(page: sa.Select[Any], dialect: str) -> sa.ScalarSelect[str]:
    """Select the tasks with their weights. Heavy tasks have only their sort key, ID and weight; the rest is null."""
    some = _some(page, dialect)
    light = sa.and_(tasks.c.id == some.c.id, some.c.weight <= bigint_param("light"))
    return _as_json(some, some.c.weight, some.outerjoin(tasks, light), sa.true(), dialect)


def _of_any_page(page: sa.Select[Any], dialect: str) -> sa.ScalarSelect[str]:
    """Select the tasks that fit into a response, each with the number of all tasks on the page."""
    some = _some(page, dialect)
    order = (some.c.bucket_rank, some.c.rank, some.c.id)
    before = (sa.func.sum(some.c.weight).over(order_by=order) - some.c.weight).label("weight_before")
    sized = sa.select(some, before, sa.func.count().over().label("found")).cte("sized")
    fits = sized.c.weight_before < PAGE_CHARS_LITERAL
    # SQLite executes an outer join from left to right; with an inner join it would scan all tasks.
    whole = sized.join(tasks, tasks.c.id == sized.c.id, isouter=dialect == "sqlite")
    return _as_json(sized, sized.c.found, whole, fits, dialect)


def _related(keys: sa.CTE, dialect: str) -> tuple[sa.ColumnElement[Any], ...]:
    """Return the columns for subtasks, blockers and assignees, which most tasks lack.

    PostgreSQL first finds the tasks on the page that have any and runs the subqueries only for those, which halves its
    time. SQLite looks up each task in the index.
    """
    on_page = sa.select(keys.alias("on_page").c.id).scalar_subquery()
    page = sa.func.array(on_page, type_=sa.ARRAY(sa.Text))  # one index scan for all tasks instead of one per task

    def of_some(column: sa.ColumnElement[Any], found: sa.ColumnElement[Any], nothing: str) -> sa.ColumnElement[Any]:
        condition: sa.ColumnElement[bool] = sa.exists().where(column == tasks.c.id)
        if dialect == "postgresql":
            condition = tasks.c.id.in_(sa.select(column).where(column == sa.any_(page)))
        return sa.case((condition, found), else_=sa.literal_column(nothing))

    # As JSON values, SQLite would nest or quote these arrays depending on its query plan, so they are returned as text.
    return (
        of_some(_children.c.parent_id, subtasks, "0").label("subtasks"),
        (of_some(task_blockers.c.task_id, blockers, "'[]'") + "").label("blockers"),
        (of_some(task_assignees.c.task_id, assignees.element, "'[]'") + "").label("people"),
    )


def _as_json(
    keys: sa.CTE, last: sa.ColumnElement[int], whole: sa.FromClause, shown: sa.ColumnElement[bool], dialect: str
) -> sa.ScalarSelect[str]:
    texts = (tasks.c[name] for name in shown_names(Task) if name != "id")
    values = (keys.c.bucket_rank, keys.c.rank, keys.c.id, *texts, *_related(keys, dialect), last.label("last"))
    listed = sa.select(*values).select_from(whole).where(shown).subquery("listed")
    return sa.select(json_rows(*listed.c)).scalar_subquery()


_kept = (
    sa.select(tasks.c.id, task_buckets.c.rank.label("bucket_rank"), tasks.c.rank.label("rank"), weight.label("weight"))
    .join_from(tasks, task_buckets, task_buckets.c.id == tasks.c.bucket_id)
    .where(any_of(tasks.c.id, "heavy"), task_buckets.c.column_id == sa.bindparam("column_id"))
    .cte("kept")
)


_kept_tasks = _kept.join(tasks, tasks.c.id == _kept.c.id)
_heavy = PerDialect.made_by(
    lambda dialect: sa.select(_as_json(_kept, _kept.c.weight, _kept_tasks, sa.true(), dialect).label("tasks"))
)


class _Page(NamedTuple):
    """The statements that read a page: `light` with its light tasks, `any` with the tasks that fit into a response."""

    light: PerDialect
    any: PerDialect


def _reading(page: sa.Select[Any], passed: sa.ColumnElement[int]) -> _Page:
    def with_tasks(listed: Callable[[sa.Select[Any], str], sa.ScalarSelect[str]]) -> PerDialect:
        def for_dialect(dialect: str) -> sa.Select[Any]:
            statement = sa.select(
                columns.c.id.label("column_id"),
                columns.c.title.label("column_title"),
                listed(page, dialect).label("tasks"),
                passed.label("passed"),
            ).where(columns.c.id == sa.bindparam("column_id"))
            return with_access(statement, columns.c.repository_id)

        return PerDialect.made_by(for_dialect)

    return _Page(hot(with_tasks(_of_light_page)), with_tasks(_of_any_page))


_first = _reading(_page, sa.literal_column("0"))
_next = _reading(_next_page, _buckets_passed.scalar_subquery() + _tasks_passed.scalar_subquery())
_KEY = 2  # length of a task's sort key: the rank of its bucket and its own rank; the ID follows
sort_key = itemgetter(0, 1)
list_key = itemgetter(0, 1, 2)
"""The key of a task in lists by position (`listing.BY_POSITION`)."""
# Tuples of known length decode faster than lists.
_row = GenericAlias(tuple, (int, int, *([Any] * len(shown_names(Task))), int, str, str, int))
_decoder: msgspec.json.Decoder[list[Any]] = msgspec.json.Decoder(GenericAlias(list, (_row,)))
_form = form_reader(Task, _KEY)
_FIELDS = "fields"
_UNRELATED: dict[str, Any] = {"subtasks": NO_SUBTASKS, "blocked_by": (), "blocked": False}


class ColumnTasks(msgspec.Struct, frozen=True):
    """A page of a column's tasks.

    `first` is the position of the first task. `rows` contains one item per task, with its sort key and assignees. `cut`
    is true if the page ended early (`list_statements.PAGE_CHARS`).
    """

    access: Access
    column: TaskColumnShape
    first: int
    rows: list[Any]
    cut: bool


_column = with_access(sa.select(columns.c.id).where(columns.c.id == sa.bindparam("column_id")), columns.c.repository_id)


async def find_column_access(reader: Reader, actor: Actor, column_id: str) -> Access:
    """Return the caller's access to the project of a column, or raise `NotFound`."""
    return (await find_with_access(reader, _column, actor, column_id=column_id))[1]


async def read_column(
    reader: Reader, actor: Actor, column_id: str, *, after: tuple[int, int] | None, limit: int
) -> ColumnTasks:
    """Read the tasks of a column in order, after the sort key `after`. Raises `NotFound`."""
    params: dict[str, object] = {"column_id": column_id, "user_id": actor.user.id, "limit": limit}
    if after is not None:
        params["bucket_rank"], params["rank"] = after
    statements = _first if after is None else _next
    light = PAGE_CHARS // limit  # a full page of tasks this light fits into a response
    row = require_found(await reader.fetch_one(statements.light, {**params, "light": light}))
    access = to_access(row, actor)
    found, cut = await _with_heavy(reader, column_id, _decoder.decode(row["tasks"]), light), False
    if found is None:
        row = require_found(await reader.fetch_one(statements.any, params))
        access = to_access(row, actor)
        found = _decoder.decode(row["tasks"])
        cut = bool(found) and len(found) < found[0][-1]
    found.sort()  # by sort key, then ID
    column = TaskColumnShape(row["column_id"], row["column_title"])
    return ColumnTasks(access, column, row["passed"], found, cut=cut)


async def _with_heavy(reader: Reader, column_id: str, found: list[Any], light: int) -> list[Any] | None:
    """Complete the page with its heavy tasks. Returns None if they do not fit or if one has moved since.

    Access is not checked again, because it was read with the page a moment ago.
    """
    places = {task[_KEY]: task[:_KEY] for task in found if task[-1] > light}
    if not places:
        return found
    if sum(task[-1] for task in found) > PAGE_CHARS:
        return None
    row = await reader.fetch_row(_heavy, {"heavy": sorted(places), "column_id": column_id})
    heavy = _decoder.decode(row["tasks"])
    whole = [*(task for task in found if task[-1] <= light), *heavy]
    is_moved = {task[_KEY]: task[:_KEY] for task in heavy} != places
    return None if is_moved or sum(task[-1] for task in whole) > PAGE_CHARS else whole


async def to_responses(reader: Reader, read: ColumnTasks, rows: Sequence[Any]) -> list[Wire[Task]]:
    """Return the JSON forms of `rows`, the first tasks of `read`, as the caller may see them."""
    project = project_of(read.access)
    people = await seen_people(reader, read.access, [people_of(row[-2]) for row in rows])
    forms = []
    for position, row, each in zip(count(read.first), rows, people, strict=False):
        if row[-4] == 0 and row[-3] == "[]":  # most tasks
            related = _UNRELATED
        else:
            blocked_by, open_blockers = blockers_of(row[-3])
            related = {"subtasks": subtasks_of(row[-4]), "blocked_by": blocked_by, "blocked": bool(open_blockers)}
        forms.append(_form(row, position=position, project=project, column=read.column, assignees=each, **related))
    for form in forms if read.access.is_client else ():
        for name in TERMS:
            setattr(form, name, None)
        setattr(form, _FIELDS, own_fields(getattr(form, _FIELDS)))
    return forms
