"""Timesheets. While one runs, `duration_ms` is what was counted before `running_since`."""

from __future__ import annotations

import sqlalchemy as sa

from workhook.storage.metadata import Millis, in_project, metadata

timesheets = sa.Table(
    "timesheets",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    in_project(),
    # Time that was spent outlives its task, whatever becomes of what was deleted.
    sa.Column("task_id", sa.Text, sa.ForeignKey("tasks.id", ondelete="SET NULL")),
    sa.Column("user_id", sa.BigInteger, sa.ForeignKey("accounts.id"), nullable=False),
    sa.Column("start_time", Millis, nullable=False),
    sa.Column("end_time", Millis),
    sa.Column("running_since", Millis),
    sa.Column("duration_ms", sa.BigInteger, nullable=False),
    sa.Column("is_active", sa.Boolean, nullable=False),
    sa.Column("finished", sa.Boolean, nullable=False),
    sa.Column("notes", sa.Text),
    sa.Column("billable", sa.Boolean, nullable=False),
    sa.Column("billable_rate_minor", sa.BigInteger),
    sa.Column("invoice_id", sa.Text, sa.ForeignKey("invoices.id", ondelete="SET NULL")),
    sa.Column("created_at", Millis, nullable=False),
    sa.Column("updated_at", Millis, nullable=False),
    sa.Index("ix_timesheets_repository_id", "repository_id", "id"),
    sa.Index("ix_timesheets_task", "task_id", "id"),
    sa.Index("ix_timesheets_user", "repository_id", "user_id", "id"),
    sa.Index("ix_timesheets_invoice_id", "invoice_id"),
    sa.Index("ix_timesheets_started", "repository_id", "start_time"),
    sa.Index(
        "ix_timesheets_active",
        "repository_id",
        "start_time",
        sqlite_where=sa.text("is_active"),
        postgresql_where=sa.text("is_active"),
    ),
    sa.Index(
        "uq_timesheets_running",
        "user_id",
        unique=True,
        sqlite_where=sa.text("is_active"),
        postgresql_where=sa.text("is_active"),
    ),
)
