"""The table of the filters of boards."""

from __future__ import annotations

import sqlalchemy as sa

from workhook.storage.metadata import Millis, metadata

# A person has one row for each project whose board they have filtered. Without a filter there is none.
board_filters = sa.Table(
    "board_filters",
    metadata,
    sa.Column("user_id", sa.BigInteger, sa.ForeignKey("accounts.id", ondelete="CASCADE"), primary_key=True),
    sa.Column(
        "repository_id", sa.BigInteger, sa.ForeignKey("projects.repository_id", ondelete="CASCADE"), primary_key=True
    ),
    sa.Column("filters", sa.Text, nullable=False),  # JSON: an object of names and values
    sa.Column("updated_at", Millis, nullable=False),
    sa.Index("ix_board_filters_repository_id", "repository_id"),
)
