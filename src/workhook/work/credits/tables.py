"""The ledger of credits: entries are appended, and their amounts never changed."""

from __future__ import annotations

import sqlalchemy as sa

from workhook.storage.metadata import in_project, metadata
from workhook.storage.record_rows import table_columns
from workhook.work.credits.schemas import TaskCredit

task_credits = sa.Table(
    "task_credits",
    metadata,
    in_project(),
    *table_columns(TaskCredit),
    sa.Column("task_id", sa.Text),
    sa.Column("task_title", sa.Text),
    sa.Column("user_id", sa.BigInteger, sa.ForeignKey("accounts.id")),
    sa.Index("ix_task_credits_repository_id", "repository_id", "id"),
    # All that a spend reads: without statistics SQLite would as soon take the index of all entries.
    sa.Index(
        "ix_task_credits_open",
        "repository_id",
        "id",
        "expires_at",
        "remaining_minor",
        "amount_minor",
        sqlite_where=sa.text("remaining_minor > 0"),
        postgresql_where=sa.text("remaining_minor > 0"),
    ),
    sa.Index(
        "ix_task_credits_expiring",
        "expires_at",
        sqlite_where=sa.text("remaining_minor > 0"),
        postgresql_where=sa.text("remaining_minor > 0"),
    ),
)
