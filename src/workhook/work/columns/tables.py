"""Columns of a board.

`position` is a sort key with gaps (`work.tasks.ordering`), so that a column that is put between two others is the only
row written; what callers see is how many columns stand before it. `revision` grows with every change of the order of
the column's tasks: whoever waited for the lock of the row learns by it that what it read meanwhile is out of date.
"""

from __future__ import annotations

import sqlalchemy as sa

from workhook.storage.metadata import in_project, metadata
from workhook.storage.record_rows import table_columns
from workhook.work.columns.schemas import Column

columns = sa.Table(
    "columns",
    metadata,
    in_project(),
    *table_columns(Column),
    sa.Column("revision", sa.BigInteger, nullable=False, server_default=sa.text("0")),
    sa.Index("ix_columns_repository_id", "repository_id", "position"),
)
