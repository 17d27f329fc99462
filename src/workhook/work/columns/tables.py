"""Columns of a board."""

from __future__ import annotations

import sqlalchemy as sa

from workhook.storage.metadata import Millis, metadata

columns = sa.Table(
    "columns",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column(
        "repository_id", sa.BigInteger, sa.ForeignKey("projects.repository_id", ondelete="CASCADE"), nullable=False
    ),
    sa.Column("title", sa.Text, nullable=False),
    sa.Column("position", sa.BigInteger, nullable=False),
    sa.Column("stage", sa.Text),
    sa.Column("finished", sa.Boolean, nullable=False),
    sa.Column("start_timer", sa.Boolean, nullable=False),
    sa.Column("created_at", Millis, nullable=False),
    sa.Column("updated_at", Millis, nullable=False),
    sa.Index("ix_columns_repository_id", "repository_id", "position"),
)
