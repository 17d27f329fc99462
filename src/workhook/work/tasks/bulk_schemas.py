"""Many changes of tasks in one request, and which parameters each kind of change takes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from workhook.core.errors import Fault, Invalid
from workhook.core.records import Wire
from workhook.http.parameters import Title
from workhook.work.tasks.schemas import ColumnId, Task, TaskContent

OPERATIONS_MAX = 1000


class TaskOperation(TaskContent, kw_only=True):
    """`create` takes what creating a task takes, and `column_id`; `edit` what changing one takes, and its `id`; `move`
    `id` with `column_id` or `position`; `delete` `id`."""

    action: Literal["create", "edit", "move", "delete"]
    id: Annotated[str, Meta(description="Of the task that is changed.")] | UnsetType = UNSET
    column_id: ColumnId | UnsetType = UNSET
    title: Title | UnsetType = UNSET


class TasksBulk(msgspec.Struct):
    """All of it is done, or nothing."""

    operations: Annotated[list[TaskOperation], Meta(min_length=1, max_length=OPERATIONS_MAX)]


class TasksBulkAnswer(msgspec.Struct):
    """`tasks`: as they are after all of it, one for each operation; null for what was deleted."""

    tasks: list[Wire[Task] | None]
    success: bool = True


_REQUIRED = {"create": ("column_id", "title"), "edit": ("id",), "move": ("id",), "delete": ("id",)}
_EVERYTHING = frozenset(TaskOperation.__struct_fields__) - {"action"}
_ALLOWED = {
    "create": _EVERYTHING - {"id"},
    "edit": _EVERYTHING,
    "move": frozenset({"id", "column_id", "position", "project_id"}),
    "delete": frozenset({"id", "project_id"}),
}


def field_of(number: int, name: str) -> str:
    return f"operations[{number}].{name}"


def require_parameters(operations: list[TaskOperation]) -> None:
    """Raises `Invalid` naming what an operation of its kind lacks or does not take."""
    faults = [fault for number, each in enumerate(operations) for fault in _faults(number, each)]
    if faults:
        raise Invalid(faults=faults)


def _faults(number: int, operation: TaskOperation) -> Iterator[Fault]:
    given = {name for name in _EVERYTHING if getattr(operation, name) is not UNSET}
    for name in _REQUIRED[operation.action]:
        if name not in given:
            yield Fault(field=field_of(number, name), code="missing", message=f"{field_of(number, name)} is required")
    if operation.action == "move" and not given & {"column_id", "position"}:
        field = field_of(number, "column_id")
        yield Fault(field=field, code="missing", message=f"{field} or {field_of(number, 'position')} is required")
    for name in sorted(given - _ALLOWED[operation.action]):
        field = field_of(number, name)
        yield Fault(field=field, code="unknown", message=f"{field}: {operation.action} does not take it")
