"""The task record, its tables, and the columns that every statement on tasks selects.

The tasks of a column are grouped into buckets of a few dozen. A bucket has a `rank` in its column and a task a `rank`
in its bucket, both with gaps (`column_order`). A task's position is the sum of the sizes of the buckets before its own
plus the number of tasks before it in the bucket, so neither reading nor changing it touches thousands of others.

`order_triggers` maintain `task_buckets.size`, and increase `columns.revision` when `bucket_id` or `rank` is written. A
deleted task is in no bucket, and its column may no longer exist.
"""

# ruff: noqa: S608  # the triggers are made of names in this file

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import tzinfo
from typing import Annotated, Any, Literal

import msgspec
import sqlalchemy as sa
from msgspec import Meta

from workhook.core import json
from workhook.core.clock import DAY_MS
from workhook.core.money import amount_text
from workhook.core.records import (
    HIDDEN,
    LINK,
    NOT_STORED,
    EventSchema,
    JsonForm,
    JsonName,
    Record,
    Stored,
    Timestamp,
    Wire,
    resource_id,
)
from workhook.core.zones import calendar_day, day_in, end_of
from workhook.identity.tables import accounts
from workhook.storage import Row
from workhook.storage.dialects import json_rows
from workhook.storage.metadata import GROWS, in_project, of_account, partial_index, plain_table
from workhook.storage.record_rows import row_reader, selected, stored_names, table_columns
from workhook.storage.schema import ddl, trigger_function
from workhook.work.kernel.people import PersonShape, membership_of, person_columns, person_of_values
from workhook.work.kernel.schemas import RATE_PATTERN

Assignees = tuple[PersonShape, ...]
Level = Literal["low", "medium", "high"]


class TaskProjectShape(msgspec.Struct, dict=True):
    id: Annotated[str, resource_id("prj")]
    title: str

    @property
    def currency(self) -> str:
        """The currency of its tasks' rates, which is not part of any response."""
        found: str = self.__dict__["money"]
        return found

    @classmethod
    def of(cls, project_id: str, title: str, currency: str) -> TaskProjectShape:
        made = cls(project_id, title)
        made.__dict__["money"] = currency
        return made


def _rate_text(minor: int, project: TaskProjectShape) -> str:
    return amount_text(minor, project.currency)


class TaskColumnShape(msgspec.Struct):
    id: Annotated[str, resource_id("col")]
    title: str


class SubtaskCounts(msgspec.Struct, frozen=True):
    """The number of a task's subtasks, and how many of them are completed."""

    total: int
    completed: int


class Task(Record, frozen=True):
    """A task.

    `position` is its place in the column, counted from 0. `parent_id` is the task it is a subtask of. `blocked_by`
    lists the tasks that block it, and `blocked` states whether any of them is open and not in the trash. `repeat` is
    the rule that creates the next task when this one is completed.
    """

    id: Annotated[str, resource_id("tsk")]
    number: Annotated[
        int,
        Meta(ge=1, description="Number in the project, from 1 in order of creation; never reused."),
    ]
    title: str
    description: str | None
    cover_url: Annotated[str | None, LINK]
    priority: Level | None
    deadline: Timestamp | None
    position: Annotated[int, NOT_STORED]
    fields: Annotated[str, JsonForm(dict[str, str], json.decode)]
    sections: Annotated[str, JsonForm(dict[str, dict[str, str]], json.decode)]
    project: TaskProjectShape
    column: TaskColumnShape
    assignees: Assignees
    labels: Annotated[str, JsonForm(list[str], json.decode)]
    hourly_rate_minor: Annotated[
        Annotated[
            int,
            JsonForm(str, _rate_text, beside="project"),
            EventSchema({"pattern": RATE_PATTERN}),
        ]
        | None,
        JsonName("hourly_rate"),
        Meta(
            description="Hourly rate, with the decimal places of the project's currency; null: the project's rate. "
            "Null for clients.",
            examples=["80.00"],
        ),
    ]
    billable: Annotated[
        bool | None, Meta(description="Whether its time is billable; null: the project's default. Null for clients.")
    ]
    estimate_ms: Annotated[
        Annotated[int, EventSchema({"description": "milliseconds"})] | None,
        JsonName("estimate"),
        Meta(description="Estimate in milliseconds; null: none. Null for clients."),
    ]
    parent_id: Annotated[str | None, resource_id("tsk", optional=True)]
    subtasks: Annotated[SubtaskCounts, EventSchema(optional=True)]
    blocked_by: Annotated[tuple[str, ...], EventSchema(optional=True)]
    blocked: Annotated[bool, NOT_STORED, EventSchema(optional=True)]
    repeat: Annotated[str | None, EventSchema(optional=True)]
    completed_at: Timestamp | None
    created_at: Timestamp
    updated_at: Timestamp
    user_id: Annotated[int, HIDDEN]  # the creator
    # The deadline of an earlier task of this rule whose day of the month or time of day this one could not keep.
    repeat_since: Annotated[int | None, HIDDEN]
    next_id: Annotated[str | None, HIDDEN]  # the task that was created when this repeating one was completed
    open_blockers: Annotated[tuple[str, ...], HIDDEN]  # the members of `blocked_by` that are open


TERMS = {"hourly_rate": "hourly_rate_minor", "billable": "billable", "estimate": "estimate_ms"}
"""The fields about a task's time, which clients do not see: JSON names mapped to record names."""


class CommitShape(msgspec.Struct):
    """The commit whose message completed a task. `message` is its first line."""

    id: Annotated[str, Meta(description="Its hash.")]
    message: str


class TaskAnswer(msgspec.Struct):
    task: Wire[Task]
    success: bool = True


class TasksAnswer(msgspec.Struct):
    tasks: Sequence[Wire[Task]]
    success: bool = True


# --- columns ----------------------------------------------------------------------------------------------------------

Stage = Literal["in_queue", "in_progress", "done"]

COLUMNS_MAX = 200
"""The maximum number of columns of a board, low enough to read them all at once."""

CursorInteger = Annotated[int, Meta(ge=-(2**62), le=2**62)]
"""A rank in a cursor, within the range that both databases can compare."""


class Column(Record, frozen=True):
    """A column of a board.

    Tasks that enter it are completed if `stage` is `done` or `finished` is true. With `start_timer`, moving a task
    there starts a timer for the user who moves it.
    """

    id: Annotated[str, resource_id("col")]
    title: str
    position: Annotated[int, NOT_STORED]
    stage: Stage | None
    finished: bool
    start_timer: bool
    created_at: Timestamp
    updated_at: Timestamp
    rank: Annotated[int, HIDDEN, Stored("position")]


columns = plain_table(
    "columns",
    in_project(),
    *table_columns(Column),
    # Increases with every change to the order of the column's tasks, so that a transaction that waited for the row's
    # lock can tell whether its reads are out of date.
    sa.Column("revision", sa.BigInteger, nullable=False, server_default=sa.text("0")),
    sa.Index("ix_columns_repository_id", "repository_id", "position"),
)


def completes(stage: str | None, finished: bool) -> bool:
    return finished or stage == "done"


# --- tables -----------------------------------------------------------------------------------------------------------


task_buckets = plain_table(
    "task_buckets",
    sa.Column("id", sa.BigInteger, primary_key=True, autoincrement=False),  # random, see `column_order.new_bucket_id`
    sa.Column("column_id", sa.Text, sa.ForeignKey("columns.id", ondelete="CASCADE"), nullable=False),
    sa.Column("rank", sa.BigInteger, nullable=False),
    sa.Column("size", sa.BigInteger, nullable=False),
    sa.Index("ix_task_buckets_column_id", "column_id", "rank"),
)

LATER_THAN_ALL, EARLIER_THAN_ALL = 1 << 62, -1

tasks = plain_table(
    "tasks",
    in_project(),
    sa.Column("column_id", sa.Text, sa.ForeignKey("columns.id", ondelete="SET NULL"), index=True),
    sa.Column("bucket_id", sa.BigInteger, sa.ForeignKey("task_buckets.id", ondelete="SET NULL")),
    sa.Column("rank", sa.BigInteger),
    sa.Column("deleted_at", sa.BigInteger),
    sa.Column("deadline_told", sa.BigInteger),  # the deadline of the last reminder (`history.notifications`)
    # When a task is purged, its subtasks become independent tasks.
    *table_columns(
        Task,
        user_id=sa.ForeignKey("accounts.id"),
        parent_id=sa.ForeignKey("tasks.id", ondelete="SET NULL"),
    ),
    sa.Index("ix_tasks_bucket_id", "bucket_id", "rank"),
    sa.Index("ix_tasks_repository_id", "repository_id", "id"),
    info={GROWS: True},
)
partial_index("uq_tasks_number", tasks.c.repository_id, tasks.c.number, where=sa.text("number > 0"), unique=True)
partial_index("ix_tasks_parent_id", tasks.c.parent_id, tasks.c.id, where=tasks.c.parent_id.is_not(None))
_is_deleted, _is_live = tasks.c.deleted_at.is_not(None), tasks.c.deleted_at.is_(None)
# For listing and purging the trash.
partial_index("ix_tasks_deleted_at", tasks.c.deleted_at, where=_is_deleted)
partial_index("ix_tasks_trash", tasks.c.repository_id, tasks.c.deleted_at, tasks.c.id, where=_is_deleted)
# One index for each sort order. Tasks in the trash are excluded.
for _name, _key in {
    "created_at": tasks.c.created_at,
    "updated_at": tasks.c.updated_at,
    "title": tasks.c.title,
    "deadline_first": sa.func.coalesce(tasks.c.deadline, sa.literal_column(str(LATER_THAN_ALL))),
    "deadline_last": sa.func.coalesce(tasks.c.deadline, sa.literal_column(str(EARLIER_THAN_ALL))),
}.items():
    partial_index(f"ix_tasks_{_name}", tasks.c.repository_id, _key, tasks.c.id, where=_is_live)

needs_reminder = sa.and_(
    tasks.c.completed_at.is_(None),
    tasks.c.deleted_at.is_(None),
    sa.func.coalesce(tasks.c.deadline_told, sa.literal_column("-1")) != tasks.c.deadline,
)
"""The condition that an open task has a deadline without a reminder."""
partial_index("ix_tasks_deadline_untold", tasks.c.deadline, where=needs_reminder)

# The last assigned task number of each project.
task_numbers = plain_table(
    "task_numbers",
    in_project(primary_key=True, autoincrement=False),
    sa.Column("last", sa.BigInteger, nullable=False),
)

# The pushed commits that have closed a task; each does so only once.
closing_commits = plain_table(
    "closing_commits",
    sa.Column("task_id", sa.Text, sa.ForeignKey("tasks.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("commit_id", sa.Text, primary_key=True),
)

task_assignees = plain_table(
    "task_assignees",
    sa.Column("task_id", sa.Text, sa.ForeignKey("tasks.id", ondelete="CASCADE"), primary_key=True),
    of_account("user_id", primary_key=True),
    sa.Index("ix_task_assignees_user", "user_id", "task_id"),
)

task_blockers = plain_table(
    "task_blockers",
    sa.Column("task_id", sa.Text, sa.ForeignKey("tasks.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("blocker_id", sa.Text, sa.ForeignKey("tasks.id", ondelete="CASCADE"), primary_key=True),
    sa.Index("ix_task_blockers_blocker", "blocker_id", "task_id"),
)


# --- triggers that create a column's first bucket, maintain bucket sizes and count revisions --------------------------
# SQLite has a single writer, so no transaction waits while another changes the order, and revisions remain unused.


@ddl
def order_triggers(dialect: str) -> Iterable[str]:
    if dialect == "postgresql":
        yield from _triggers_on_postgresql()
        return
    more = "UPDATE task_buckets SET size = size + 1 WHERE id = new.bucket_id;"
    less = "UPDATE task_buckets SET size = size - 1 WHERE id = old.bucket_id;"
    first = "INSERT INTO task_buckets (id, column_id, rank, size) VALUES (random() >> 2 & ~(3 << 62), new.id, 0, 0);"
    yield f"CREATE TRIGGER task_order_first AFTER INSERT ON columns BEGIN {first} END"
    yield f"CREATE TRIGGER task_order_insert AFTER INSERT ON tasks BEGIN {more} END"
    yield f"CREATE TRIGGER task_order_delete AFTER DELETE ON tasks BEGIN {less} END"
    yield (
        "CREATE TRIGGER task_order_update AFTER UPDATE OF bucket_id ON tasks "
        f"WHEN old.bucket_id IS NOT new.bucket_id BEGIN {less} {more} END"
    )


def _triggers_on_postgresql() -> Iterator[str]:
    yield from trigger_function(
        "task_order_first",
        "AFTER INSERT ON columns FOR EACH ROW",
        # The column's ID is random; take 62 bits of its hash.
        """INSERT INTO {schema}task_buckets (id, column_id, rank, size)
        VALUES (hashtextextended(new.id, 0) & ~(3::bigint << 62), new.id, 0, 0);""",
    )
    # A statement that inserts or deletes thousands of tasks updates each bucket and column once.
    yield from trigger_function(
        "task_order_insert",
        "AFTER INSERT ON tasks REFERENCING NEW TABLE AS touched FOR EACH STATEMENT",
        _counted("+"),
    )
    yield from trigger_function(
        "task_order_delete",
        "AFTER DELETE ON tasks REFERENCING OLD TABLE AS touched FOR EACH STATEMENT",
        _counted("-"),
    )
    other = "old.bucket_id IS DISTINCT FROM new.bucket_id"
    yield from trigger_function(
        "task_order_update",
        f"AFTER UPDATE OF bucket_id, rank ON tasks FOR EACH ROW WHEN ({other} OR old.rank IS DISTINCT FROM new.rank)",
        f"""IF {other} THEN
        UPDATE {{schema}}task_buckets SET size = size - 1 WHERE id = old.bucket_id;
        UPDATE {{schema}}task_buckets SET size = size + 1 WHERE id = new.bucket_id;
        END IF;
        UPDATE {{schema}}columns SET revision = revision + 1 WHERE id IN (old.column_id, new.column_id);""",
    )


def _counted(sign: str) -> str:
    return f"""UPDATE {{schema}}task_buckets AS bucket SET size = bucket.size {sign} counted.size
        FROM (SELECT bucket_id, count(*) AS size FROM touched GROUP BY bucket_id) AS counted
        WHERE bucket.id = counted.bucket_id;
        UPDATE {{schema}}columns SET revision = revision + 1 WHERE id IN
        (SELECT column_id FROM touched WHERE bucket_id IS NOT NULL);"""


# --- rows -------------------------------------------------------------------------------------------------------------

CONTENT = stored_names(Task, without=("id", "number", "user_id", "created_at", "updated_at"))

_read_task = row_reader(Task)
_before = task_buckets.alias("before")
_neighbours = tasks.alias("neighbours")

bucket_index: sa.ColumnElement[int] = (
    sa.select(sa.func.count())
    .select_from(_neighbours)
    .where(_neighbours.c.bucket_id == tasks.c.bucket_id, _neighbours.c.rank < tasks.c.rank)
    .scalar_subquery()
)
"""The number of tasks before a task in its bucket."""

_buckets_before = (
    sa.select(sa.cast(sa.func.coalesce(sa.func.sum(_before.c.size), 0), sa.BigInteger))
    .where(_before.c.column_id == task_buckets.c.column_id, _before.c.rank < task_buckets.c.rank)
    .scalar_subquery()
)

people = accounts.alias("people")  # an alias, because the statement may join `accounts` for the project's owner
people_assigned = sa.select(json_rows(*person_columns(membership_of(tasks.c.repository_id, people), people))).where(
    task_assignees.c.task_id == tasks.c.id, people.c.id == task_assignees.c.user_id
)
"""The assignees of a task, as JSON for `people_of`."""
assignees = people_assigned.scalar_subquery().label("task_assignees")

_TOTAL = 1 << 32  # each subtask adds this to the combined number, and a completed one adds 1 more
_subtasks = tasks.alias("subtasks")
subtasks: sa.ColumnElement[int] = (
    sa.select(sa.func.count() * sa.literal_column(str(_TOTAL), sa.BigInteger) + sa.func.count(_subtasks.c.completed_at))
    .where(_subtasks.c.parent_id == tasks.c.id, _subtasks.c.deleted_at.is_(None))
    .scalar_subquery()
)
"""Both subtask counts in one number, for `subtasks_of`. This takes one index lookup per task of a list."""

weight: sa.ColumnElement[int] = sa.cast(
    sum(
        (sa.func.length(tasks.c[name]) for name in ("fields", "sections", "labels")),
        start=sa.func.coalesce(sa.func.length(tasks.c.description), 0),
    ),
    sa.Integer,  # PostgreSQL sums larger integers as decimals
)
"""The number of characters in a task's texts."""

_blocking = tasks.alias("blocking")
_blocks = sa.and_(_blocking.c.completed_at.is_(None), _blocking.c.deleted_at.is_(None))
_waits_for = sa.and_(task_blockers.c.task_id == tasks.c.id, _blocking.c.id == task_blockers.c.blocker_id)
blockers = (
    sa.select(
        json_rows(task_blockers.c.blocker_id, sa.case((_blocks, sa.literal_column("1")), else_=sa.literal_column("0")))
    )
    .where(_waits_for)
    .scalar_subquery()
)
"""The blockers of a task, as JSON for `blockers_of`."""


def open_blocker(some: sa.FromClause) -> sa.ColumnElement[str | None]:
    """Select an open blocker of the task in `some`, or null."""
    return (
        sa.select(_blocking.c.id)
        .join_from(task_blockers, _blocking, _blocking.c.id == task_blockers.c.blocker_id)
        .where(task_blockers.c.task_id == some.c.id, _blocks)
        .limit(1)
        .correlate(some)
        .scalar_subquery()
    )


task_columns: list[sa.Label[Any]] = [
    *selected(Task, tasks, "task_"),
    assignees,
    subtasks.label("task_subtasks"),
    blockers.label("task_blockers"),
]
"""The columns that `task_at` reads, all from the tasks table. They must come first in the SELECT."""

with_column = tasks.join(columns, columns.c.id == tasks.c.column_id).outerjoin(
    task_buckets, task_buckets.c.id == tasks.c.bucket_id
)
every_column: list[sa.Label[Any]] = [
    *task_columns,
    (_buckets_before + bucket_index).label("task_position"),
    columns.c.id.label("column_id"),
    columns.c.title.label("column_title"),
]
"""`task_columns`, plus the column and the position of the task, to select from `with_column`."""


def task_at(row: Row, project: TaskProjectShape, column: TaskColumnShape, position: int) -> Task:
    blocked_by, open_blockers = blockers_of(row["task_blockers"])
    return _read_task(
        row,
        position=position,
        project=project,
        column=column,
        assignees=people_of(row["task_assignees"]),
        subtasks=subtasks_of(row["task_subtasks"]),
        blocked_by=blocked_by,
        blocked=bool(open_blockers),
        open_blockers=open_blockers,
    )


NO_SUBTASKS = SubtaskCounts(0, 0)


def subtasks_of(number: int) -> SubtaskCounts:
    return SubtaskCounts(*divmod(number, _TOTAL)) if number else NO_SUBTASKS


def blockers_of(text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the IDs in the JSON of `blockers`: all blockers, and the open ones."""
    if text == "[]":
        return (), ()
    found = sorted(json.decode(text))
    return tuple(each for each, _ in found), tuple(each for each, blocks in found if blocks)


def people_of(text: str) -> Assignees:
    """Return the people in the JSON of `assignees`, oldest account first."""
    if text == "[]":
        return ()
    people = sorted(json.decode(text), key=lambda fields: fields[0])
    return tuple(person_of_values(*fields) for fields in people)


Urgency = Literal["", "warn", "bad"]
"""`bad` is overdue, `warn` is due within a day. Empty: due later, without a deadline, or completed."""


def urgency(deadline: int | None, *, is_completed: bool, now: int, zone: tzinfo) -> Urgency:
    """Return how urgent a task is.

    Times are in milliseconds; a deadline that is a day ends with that day in the zone.
    """
    if deadline is None or is_completed:
        return ""
    left = end_of(deadline, zone) - now
    return "bad" if left <= 0 else "warn" if left <= DAY_MS else ""


DUE_SOON_DAYS = 7
DueSpan = Literal["overdue", "today", "week", "later", "none", "done"]


def due_span(deadline: int | None, *, is_completed: bool, now: int, zone: tzinfo) -> DueSpan:
    """Return when a task is due. `week` means in the next seven days, but not today."""
    if is_completed:
        return "done"
    if deadline is None:
        return "none"
    if urgency(deadline, is_completed=False, now=now, zone=zone) == "bad":
        return "overdue"
    days = (calendar_day(deadline, zone) - day_in(now, zone)).days
    return "today" if days <= 0 else "week" if days <= DUE_SOON_DAYS else "later"
