"""The ledger of credits: entries are appended, and their amounts never changed."""

from __future__ import annotations

import sqlalchemy as sa

from workhook.storage.metadata import Millis, metadata

task_credits = sa.Table(
    "task_credits",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column(
        "repository_id", sa.BigInteger, sa.ForeignKey("projects.repository_id", ondelete="CASCADE"), nullable=False
    ),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("amount_minor", sa.BigInteger, nullable=False),
    sa.Column("balance_after_minor", sa.BigInteger, nullable=False),
    sa.Column("task_id", sa.Text),
    sa.Column("task_title", sa.Text),
    sa.Column("user_id", sa.BigInteger, sa.ForeignKey("accounts.id")),
    sa.Column("notes", sa.Text),
    sa.Column("expires_at", Millis),
    sa.Column("reverses_id", sa.Text),
    sa.Column("reversed", sa.Boolean, nullable=False),
    sa.Column("created_at", Millis, nullable=False),
    sa.Column("updated_at", Millis, nullable=False),
    sa.Index("ix_task_credits_repository_id", "repository_id", "id"),
)
