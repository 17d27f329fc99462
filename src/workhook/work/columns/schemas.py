"""A column of a project's board: the record, its table, what a caller may say about one and what its flags mean.

The stored `position` (`Column.rank`) is a sort key with gaps (`work.tasks.order`), so that only one row is written when
a column is put between two others. The API shows how many columns stand before it. Two columns that are made at the
same place at once may get the same rank: their ids decide then.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
import sqlalchemy as sa
from msgspec import UNSET, Meta, UnsetType

from workhook.core.errors import Fault, Invalid
from workhook.core.records import COMPUTED, HIDDEN, Millis, Record, Stored, Wire, resource_id
from workhook.http.parameters import Title
from workhook.storage.metadata import in_project, metadata
from workhook.storage.record_rows import table_columns

Stage = Literal["in_queue", "in_progress", "done"]

COLUMNS_MAX = 200
"""The most columns of a board: more than anybody can look at, and few enough to be read at once."""

CursorInteger = Annotated[int, Meta(ge=-(2**62), le=2**62)]
"""A rank in a cursor: an integer that both databases can compare with."""

Position = Annotated[int, Meta(ge=0, le=2**53 - 1, description="0-based; past the end it is the end.")]


class ColumnCreate(msgspec.Struct):
    """Without `position` the column comes last."""

    title: Title
    position: Position | UnsetType = UNSET
    stage: Stage | UnsetType | None = UNSET
    finished: bool | UnsetType = UNSET
    start_timer: bool | UnsetType = UNSET


class ColumnEdit(msgspec.Struct):
    """What is absent stays."""

    title: Title | UnsetType = UNSET
    position: Position | UnsetType = UNSET
    stage: Stage | UnsetType | None = UNSET
    finished: bool | UnsetType = UNSET
    start_timer: bool | UnsetType = UNSET


class Column(Record, frozen=True):
    """`stage` done or `finished`: tasks that enter are completed. `start_timer`: the mover's timer starts."""

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


class ColumnAnswer(msgspec.Struct):
    column: Wire[Column]
    success: bool = True


class ColumnsAnswer(msgspec.Struct):
    columns: list[Wire[Column]]
    success: bool = True


def completes(stage: str | None, finished: bool) -> bool:
    """Whether a task that enters such a column is completed."""
    return finished or stage == "done"


def require_flags_that_fit(stage: str | None, finished: bool, start_timer: bool) -> None:
    """Raises `Invalid` for a column that would finish the timers of a task and start one. ("States", Column)"""
    if start_timer and completes(stage, finished):
        message = "start_timer cannot be true where tasks are completed (stage done, or finished)"
        raise Invalid(faults=[Fault(field="start_timer", message=message)])
