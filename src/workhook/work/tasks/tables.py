"""Tasks."""

from __future__ import annotations

import sqlalchemy as sa

from workhook.storage.metadata import Millis, metadata

tasks = sa.Table(
    "tasks",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column(
        "repository_id", sa.BigInteger, sa.ForeignKey("projects.repository_id", ondelete="CASCADE"), nullable=False
    ),
    sa.Column("column_id", sa.Text, sa.ForeignKey("columns.id"), nullable=False),
    sa.Column("title", sa.Text, nullable=False),
    sa.Column("description", sa.Text),
    sa.Column("priority", sa.Text),
    sa.Column("deadline", Millis),
    sa.Column("cover_url", sa.Text),
    sa.Column("fields", sa.Text, nullable=False),
    sa.Column("sections", sa.Text, nullable=False),
    sa.Column("labels", sa.Text, nullable=False),
    sa.Column("user_id", sa.BigInteger, sa.ForeignKey("accounts.id"), nullable=False),
    sa.Column("completed_at", Millis),
    sa.Column("deleted_at", Millis),
    sa.Column("created_at", Millis, nullable=False),
    sa.Column("updated_at", Millis, nullable=False),
    sa.Index("ix_tasks_column_id", "column_id"),
    sa.Index("ix_tasks_repository_id", "repository_id", "id"),
)

task_assignees = sa.Table(
    "task_assignees",
    metadata,
    sa.Column("task_id", sa.Text, sa.ForeignKey("tasks.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("user_id", sa.BigInteger, sa.ForeignKey("accounts.id", ondelete="CASCADE"), primary_key=True),
    sa.Index("ix_task_assignees_user_id", "user_id"),
)
