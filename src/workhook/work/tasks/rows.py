"""What every statement that reads tasks selects, and what is made of its rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from workhook.core import json
from workhook.identity.tables import accounts
from workhook.storage import Row
from workhook.storage.dialects import json_rows
from workhook.storage.record_rows import row_reader, selected, stored_names
from workhook.work.columns.schemas import columns
from workhook.work.pages import PAGE_CHARS
from workhook.work.people import PersonShape, membership_of, person_columns, person_of_values
from workhook.work.tasks.schemas import Task, TaskColumnShape, TaskProjectShape
from workhook.work.tasks.tables import task_assignees, task_buckets, tasks

CONTENT = stored_names(Task, without=("id", "user_id", "created_at", "updated_at"))

read_task = row_reader(Task)

_before = task_buckets.alias("before")
_neighbours = tasks.alias("neighbours")
_people = accounts.alias("people")  # not the owner of the project, whom the statement may join

bucket_index: sa.ColumnElement[int] = (
    sa.select(sa.func.count())
    .select_from(_neighbours)
    .where(_neighbours.c.bucket_id == tasks.c.bucket_id, _neighbours.c.rank < tasks.c.rank)
    .scalar_subquery()
)
"""How many tasks are before a task in its bucket."""

_buckets_before = (
    sa.select(sa.cast(sa.func.coalesce(sa.func.sum(_before.c.size), 0), sa.BigInteger))
    .where(_before.c.column_id == task_buckets.c.column_id, _before.c.rank < task_buckets.c.rank)
    .scalar_subquery()
)
position = (_buckets_before + bucket_index).label("task_position")
"""Of a task whose bucket is joined."""

assignees = (
    sa.select(json_rows(*person_columns(membership_of(tasks.c.repository_id, _people), _people)))
    .where(task_assignees.c.task_id == tasks.c.id, _people.c.id == task_assignees.c.user_id)
    .scalar_subquery()
    .label("task_assignees")
)

has_assignees = sa.exists().where(task_assignees.c.task_id == tasks.c.id)


def task_columns() -> list[sa.Label[Any]]:
    """Of the tasks table alone: put these first. `task_of` needs the position and the column's title besides."""
    return [*selected(Task, tasks, "task_"), assignees]


weight: sa.ColumnElement[int] = sa.cast(
    sum(
        (sa.func.length(tasks.c[name]) for name in ("fields", "sections", "labels")),
        start=sa.func.coalesce(sa.func.length(tasks.c.description), 0),
    ),
    sa.BigInteger,
)
"""Of the texts of a task, in characters."""


def no_more_than_a_page(some: sa.Subquery, *order: sa.ColumnElement[Any]) -> sa.Subquery:
    """Of the tasks that `some` selects by `id` with their `weight`, in this order: `weight_before` is that of all those
    before it, `found` how many there are."""
    before = (sa.func.sum(some.c.weight).over(order_by=order) - some.c.weight).label("weight_before")
    return sa.select(some, before, sa.func.count().over().label("found")).subquery("sized")


def on_page(sized: sa.Subquery) -> sa.ColumnElement[bool]:
    return sized.c.weight_before < sa.literal_column(str(PAGE_CHARS), sa.BigInteger)


def is_cut(rows: Sequence[Row]) -> bool:
    """Whether more was `found` than came."""
    return bool(rows) and len(rows) < rows[0]["found"]


with_column = tasks.join(columns, columns.c.id == tasks.c.column_id).outerjoin(
    task_buckets, task_buckets.c.id == tasks.c.bucket_id
)
every_column = [*task_columns(), position, columns.c.id.label("column_id"), columns.c.title.label("column_title")]
"""From `with_column`, what `task_of` needs."""


def task_of(row: Row, project: TaskProjectShape) -> Task:
    """From a row of `every_column`."""
    return listed_task_of(row, project, TaskColumnShape(row["column_id"], row["column_title"]), row["task_position"])


def listed_task_of(row: Row, project: TaskProjectShape, column: TaskColumnShape, position: int) -> Task:
    """From a row of `task_columns`, where the rest is known already."""
    people = people_of(row["task_assignees"])
    return read_task(row, position=position, project=project, column=column, assignees=people)


def people_of(text: str) -> tuple[PersonShape, ...]:
    """In the order of their ids, that is the oldest account first."""
    if text == "[]":
        return ()
    people = sorted(json.decode(text), key=lambda fields: fields[0])
    return tuple(person_of_values(*fields) for fields in people)
