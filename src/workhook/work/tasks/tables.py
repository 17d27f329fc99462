"""Tasks, and the order that they have in their columns.

The tasks of a column stand in buckets of some dozens. A bucket has a `rank` among those of its column, and a task one
in its bucket, both with gaps (`work.tasks.order`). A task's position is the sizes of the buckets before its own and the
number of tasks before it there: neither reading nor changing it touches the other thousands.

Triggers (migration 0006) keep `task_buckets.size` true and let `columns.revision` grow, whoever writes `bucket_id` and
`rank`. A task that was deleted is in no bucket; its column may be gone.
"""

from __future__ import annotations

import sqlalchemy as sa

from workhook.storage.metadata import in_project, metadata
from workhook.storage.record_rows import table_columns
from workhook.work.tasks.schemas import Task

task_buckets = sa.Table(
    "task_buckets",
    metadata,
    sa.Column("id", sa.BigInteger, primary_key=True, autoincrement=False),  # random, see `order.new_bucket_id`
    sa.Column("column_id", sa.Text, sa.ForeignKey("columns.id", ondelete="CASCADE"), nullable=False),
    sa.Column("rank", sa.BigInteger, nullable=False),
    sa.Column("size", sa.BigInteger, nullable=False),
    sa.Index("ix_task_buckets_column_id", "column_id", "rank"),
)

LATER_THAN_ALL, EARLIER_THAN_ALL = 1 << 62, -1


tasks = sa.Table(
    "tasks",
    metadata,
    in_project(),
    sa.Column("column_id", sa.Text, sa.ForeignKey("columns.id", ondelete="SET NULL")),
    sa.Column("bucket_id", sa.BigInteger, sa.ForeignKey("task_buckets.id", ondelete="SET NULL")),
    sa.Column("rank", sa.BigInteger),
    sa.Column("deleted_at", sa.BigInteger),
    *table_columns(Task, user_id=sa.ForeignKey("accounts.id")),
    sa.Index("ix_tasks_column_id", "column_id"),
    sa.Index("ix_tasks_bucket_id", "bucket_id", "rank"),
    sa.Index("ix_tasks_repository_id", "repository_id", "id"),
    # What the trash holds, and what is to be removed from it.
    sa.Index(
        "ix_tasks_deleted_at",
        "deleted_at",
        sqlite_where=sa.text("deleted_at IS NOT NULL"),
        postgresql_where=sa.text("deleted_at IS NOT NULL"),
    ),
)

sa.Index(
    "ix_tasks_trash",
    tasks.c.repository_id,
    tasks.c.deleted_at,
    tasks.c.id,
    sqlite_where=sa.text("deleted_at IS NOT NULL"),
    postgresql_where=sa.text("deleted_at IS NOT NULL"),
)
_live = sa.text("deleted_at IS NULL")
# Each order in which a list may be asked for. Those that the trash holds are not in any.
for _name, _key in {
    "created_at": tasks.c.created_at,
    "updated_at": tasks.c.updated_at,
    "title": tasks.c.title,
    "deadline_first": sa.func.coalesce(tasks.c.deadline, sa.literal_column(str(LATER_THAN_ALL))),
    "deadline_last": sa.func.coalesce(tasks.c.deadline, sa.literal_column(str(EARLIER_THAN_ALL))),
}.items():
    sa.Index(f"ix_tasks_{_name}", tasks.c.repository_id, _key, tasks.c.id, sqlite_where=_live, postgresql_where=_live)

task_assignees = sa.Table(
    "task_assignees",
    metadata,
    sa.Column("task_id", sa.Text, sa.ForeignKey("tasks.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("user_id", sa.BigInteger, sa.ForeignKey("accounts.id", ondelete="CASCADE"), primary_key=True),
    sa.Index("ix_task_assignees_user_id", "user_id"),
)
