"""A column of a project's board: the record, its table, and what its flags mean.

The stored `position` (`Column.rank`) is a sort key with gaps (`work.tasks.order`), so that only one row is written when
a column is put between two others. The API shows how many columns stand before it. Two columns that are made at the
same place at once may get the same rank: their ids decide then.
"""

from __future__ import annotations

from typing import Annotated, Literal

import sqlalchemy as sa
from msgspec import Meta

from workhook.core.records import COMPUTED, HIDDEN, Millis, Record, Stored, resource_id
from workhook.storage.metadata import in_project, metadata
from workhook.storage.record_rows import table_columns

Stage = Literal["in_queue", "in_progress", "done"]

COLUMNS_MAX = 200
"""The most columns of a board: more than anybody can look at, and few enough to be read at once."""

CursorInteger = Annotated[int, Meta(ge=-(2**62), le=2**62)]
"""A rank in a cursor: an integer that both databases can compare with."""


class Column(Record, frozen=True):
    """A column of a board. `stage` done or `finished`: tasks that enter it are completed. `start_timer`: a timer
    starts for whoever moves a task there."""

    id: Annotated[str, resource_id("col")]
    title: str
    position: Annotated[int, COMPUTED]
    stage: Stage | None
    finished: bool
    start_timer: bool
    created_at: Millis
    updated_at: Millis
    rank: Annotated[int, HIDDEN, Stored("position")]


columns = sa.Table(
    "columns",
    metadata,
    in_project(),
    *table_columns(Column),
    # It grows with every change of the order of the column's tasks. Whoever waited for the lock of the row learns by it
    # that what it read meanwhile is out of date.
    sa.Column("revision", sa.BigInteger, nullable=False, server_default=sa.text("0")),
    sa.Index("ix_columns_repository_id", "repository_id", "position"),
)


def completes(stage: str | None, finished: bool) -> bool:
    """Whether a task that enters such a column is completed."""
    return finished or stage == "done"
