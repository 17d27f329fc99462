"""The ledger of credits: entries are appended, and their amounts never changed."""

from __future__ import annotations

import sqlalchemy as sa

from workhook.storage.metadata import Millis, in_project, metadata

# `remaining_minor` is what of a grant nobody has spent, lost or taken back; of every other entry it is 0. So the
# grants that are left to spend from are found without reading the ledger, and the balance is their sum.
# `uses` (JSON, `[[grant's id, minor units], …]`) says which grants a spend took from or an expiry took away.
task_credits = sa.Table(
    "task_credits",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    in_project(),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("amount_minor", sa.BigInteger, nullable=False),
    sa.Column("balance_after_minor", sa.BigInteger, nullable=False),
    sa.Column("remaining_minor", sa.BigInteger, nullable=False),
    sa.Column("uses", sa.Text, nullable=False),
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
