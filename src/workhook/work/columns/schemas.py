"""A column on the wire, what a caller may say about one, and what its flags mean."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from workhook.core.errors import Fault, Invalid
from workhook.core.records import COMPUTED, HIDDEN, Millis, Record, Stored, Wire, resource_id
from workhook.http.parameters import Title

Stage = Literal["in_queue", "in_progress", "done"]

COLUMNS_MAX = 200
"""Of a board: more than anybody can look at, and few enough to be read at once."""

CursorInteger = Annotated[int, Meta(ge=-(2**62), le=2**62)]
"""What both databases can compare with."""

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
