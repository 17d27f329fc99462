"""People from outside who were given a project to look into."""

from __future__ import annotations

import sqlalchemy as sa

from workhook.storage.metadata import Millis, metadata

clients = sa.Table(
    "clients",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column(
        "repository_id", sa.BigInteger, sa.ForeignKey("projects.repository_id", ondelete="CASCADE"), nullable=False
    ),
    sa.Column("user_id", sa.BigInteger, sa.ForeignKey("accounts.id"), nullable=False),
    sa.Column("email", sa.Text, nullable=False),
    sa.Column("created_at", Millis, nullable=False),
    sa.Column("updated_at", Millis, nullable=False),
    sa.UniqueConstraint("repository_id", "user_id"),
    sa.Index("ix_clients_user", "user_id", "repository_id"),
)
