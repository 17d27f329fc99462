"""Columns of a board.

`position` is a sort key with gaps (`work.tasks.order`), so that a column that is put between two others is the only row
written; what callers see is how many columns stand before it. `revision` grows with every change of the order of the
column's tasks: whoever waited for the lock of the row learns by it that what it read meanwhile is out of date.
"""

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
    sa.Column("revision", sa.BigInteger, nullable=False, server_default=sa.text("0")),
    sa.Column("created_at", Millis, nullable=False),
    sa.Column("updated_at", Millis, nullable=False),
    sa.Index("ix_columns_repository_id", "repository_id", "position"),
)
