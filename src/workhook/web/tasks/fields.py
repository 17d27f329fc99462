"""The fields of a task in the forms of its page: how they are typed, and how a page says what it has shown."""

from __future__ import annotations

import hashlib
from decimal import Decimal

from msgspec.structs import replace

from workhook.core import json
from workhook.core.clock import to_millis_text
from workhook.core.errors import Invalid
from workhook.core.money import minor_or_none
from workhook.web.frame.formats import typed_amount
from workhook.web.frame.places import AmountField, Visit
from workhook.web.time.days import read_duration
from workhook.work.board.tasks.inputs import TaskEdit
from workhook.work.board.tasks.schemas import TERMS, Task
from workhook.work.kernel.durations import display


def value_of(task: Task, name: str) -> object:
    """Of the field that the API calls `name`."""
    return task.column.id if name == "column_id" else getattr(task, TERMS.get(name, name))


def says(edit: TaskEdit, name: str, task: Task) -> bool:
    """Whether the task has already what the edit says."""
    wanted = getattr(edit, name)
    if isinstance(wanted, Decimal):
        wanted = minor_or_none(wanted, task.project.currency)
    return bool(value_of(task, name) == wanted)


def digest(task: Task, name: str) -> str:
    """Of the value of a field: a form says by it what its page has shown."""
    return hashlib.sha256(json.encode(value_of(task, name))).hexdigest()[:32]


def typed_value(name: str, value: object, currency: str) -> str:
    """As the form of a field takes it, without losing anything. `currency`: of a rate."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        if name == "hourly_rate":
            return typed_amount(value, currency)
        return to_millis_text(value) if name == "deadline" else display(value) if name == "estimate" else str(value)
    return str(value)


def read_edit(visit: Visit, name: str, project_id: str, currency: str) -> TaskEdit:
    """The edit that the form of one field asks for. Raises `Invalid`."""
    if name == "estimate" and (typed := visit.fields[name].strip()):
        try:
            return visit.form(TaskEdit, project_id=project_id, estimate=read_duration(typed))
        except Invalid as problem:
            raise Invalid(faults=[replace(each, field=name) for each in problem.faults]) from None
    return visit.form(TaskEdit, AmountField(name, currency) if name == "hourly_rate" else name, project_id=project_id)
