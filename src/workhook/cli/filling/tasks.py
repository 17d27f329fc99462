"""Tasks with comments and timesheets. Six of ten are in the first project, and the first has half of the comments.

A timesheet has the number of its task.
"""

from __future__ import annotations

import sqlalchemy as sa

from workhook.cli.filling import sql
from workhook.cli.filling.plan import BUCKETS_FROM, COLUMNS, IN_BUCKET
from workhook.cli.filling.sql import N, Text, Whole, whole
from workhook.core.clock import DAY_MS, HOUR_MS
from workhook.storage.metadata import big
from workhook.work.comments.tables import task_comments
from workhook.work.tasks.order import STEP
from workhook.work.tasks.tables import task_assignees, task_buckets, tasks
from workhook.work.timesheets.schemas import timesheets

COMMON_WORD, USUAL_WORDS, SELDOM_WORD = "board", ("limit", "column", "report", "invoice"), "zebra"
LABELS, SELDOM_LABEL = ("bug", "idea", "later"), "urgent"
PRIORITIES = (None, "low", "medium", "high")
_TEXT = "Two boards can have different limits, see the discussion. " * 3


def _bucket(number: Whole) -> Whole:
    """The index of a task's bucket among all, from 0."""
    return (number - whole(1)) // whole(IN_BUCKET)


def _column(bucket: Whole) -> Whole:
    """The index of a bucket's column among all. The first project's columns are the first."""
    first, others = big("first_buckets"), big("other_buckets")
    of_others = whole(COLUMNS) + (bucket - first) * whole(sql.OTHER_COLUMNS) // others
    return sa.case((bucket < first, bucket * whole(COLUMNS) // first), else_=of_others)


def _task_id(number: Whole) -> Text:
    return sql.id_text("tsk", sql.shuffled(number, "tasks"), number)


def _repository(number: Whole) -> Whole:
    return sql.repository_at(_column(_bucket(number)) // whole(COLUMNS))


_at = sql.shuffled(N, "tasks")
_deleted = N % whole(50) == whole(0)
_seldom = N % big("seldom_task") == whole(7)
_words = sql.joined(
    sql.text("Task "), sa.cast(N, sa.Text), sql.text(f": the {COMMON_WORD}, the "), sql.pick(N, USUAL_WORDS),
    sa.case((_seldom, sql.text(f" and the {SELDOM_WORD}")), else_=sql.text("")),
)  # fmt: skip
_labels = sql.pick(N // whole(3), ("[]", *(f'["{each}"]' for each in LABELS)))
_person = sa.case((N % whole(60) == whole(6), sql.person(whole(5))), else_=sql.person(N))
_someone = sa.case((_seldom, sql.person(whole(6))), else_=_person)

# The triggers count what is put into them.
insert_buckets = sql.rows(
    task_buckets,
    {
        "id": whole(BUCKETS_FROM) + N,
        "column_id": sql.column_at(_column(N)),
        "rank": (N + whole(1)) * whole(STEP),
        "size": whole(0),
    },
)

insert_tasks = sql.rows(
    tasks,
    {
        "id": _task_id(N),
        "repository_id": _repository(N),
        "column_id": sql.column_at(_column(_bucket(N))),
        "bucket_id": sa.case((_deleted, sa.null()), else_=whole(BUCKETS_FROM) + _bucket(N)),
        "rank": sa.case((_deleted, sa.null()), else_=(N - whole(1)) % whole(IN_BUCKET) * whole(STEP)),
        "title": _words,
        "description": sql.text(_TEXT),
        "priority": sql.pick(N // whole(5), PRIORITIES),
        "deadline": sa.case((N % whole(2) == whole(0), _at + N % whole(40) * whole(DAY_MS)), else_=sa.null()),
        "fields": sql.text("{}"),
        "sections": sql.text("[]"),
        "labels": sa.case((_seldom, sql.text(f'["{SELDOM_LABEL}"]')), else_=_labels),
        "user_id": _someone,
        "completed_at": sa.case((N % whole(3) == whole(0), _at + whole(HOUR_MS)), else_=sa.null()),
        "deleted_at": sa.case((_deleted, _at + whole(HOUR_MS)), else_=sa.null()),
        "created_at": _at,
        "updated_at": _at + N % whole(1000) * whole(1000),
    },
)

insert_assignees = sql.rows(
    task_assignees,
    {"task_id": _task_id(N), "user_id": _someone},
    sa.or_(N % whole(3) == whole(0), _seldom),
)

_commented = sa.case((N % whole(2) == whole(0), whole(1)), else_=N)

insert_comments = sql.rows(
    task_comments,
    {
        "repository_id": _repository(_commented),
        "task_id": _task_id(_commented),
        "user_id": _person,
        "text": sql.joined(sql.text(f"On the {COMMON_WORD}: number "), sa.cast(N, sa.Text)),
        "private": N % whole(10) == whole(0),
        "created_at": _at,
        "updated_at": _at,
    },
)

_billed = sa.and_(big("first_tasks") >= N, N % whole(10) == whole(0))

insert_timesheets = sql.rows(
    timesheets,
    {
        "id": sql.id_text("tms", _at, N),
        "repository_id": _repository(N),
        "task_id": _task_id(N),
        "user_id": _someone,
        "start_time": _at,
        "end_time": _at + whole(HOUR_MS),
        "duration_ms": whole(HOUR_MS),
        "is_active": sa.false(),
        "finished": N % whole(5) != whole(0),
        "notes": sql.text("What was done."),
        "billable": N % whole(4) != whole(0),
        "billable_rate_minor": whole(9000),
        "invoice_id": sa.case((_billed, sql.id_text("inv", big("start"), whole(1) + N % big("some"))), else_=sa.null()),
        "created_at": _at,
        "updated_at": _at,
    },
)
