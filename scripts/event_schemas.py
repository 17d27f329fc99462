"""Write the schemas of the records in events: `python -m scripts.event_schemas`. Run it whenever a record changes.

The schemas are derived from the records' declarations (`workhook.core.records`). The event catalog reads the generated
file, so it need not import the work API. A test checks that the file is up to date.
"""

from __future__ import annotations

import json
import types
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import msgspec

from workhook.core.records import DESCRIBED, EventSchema, JsonForm, RecordField, shown_fields
from workhook.events.schemas import (
    AMOUNT,
    COUNT,
    FLAG,
    INTEGER_ID,
    RESOURCES_FILE,
    TEXT,
    USER,
    Schema,
    list_of,
    map_of,
    nullable,
    one_of,
    record,
)
from workhook.work.board.projects.schemas import Project
from workhook.work.board.tasks.schemas import Column, CommitShape, Task
from workhook.work.discussion.schemas import FileComment, Reply, TaskComment
from workhook.work.files.schemas import File, Folder
from workhook.work.kernel.people import PersonShape
from workhook.work.kernel.tables import Client
from workhook.work.money.checkouts.schemas import ServiceCheckoutShape
from workhook.work.money.credit_notes.schemas import CreditNote
from workhook.work.money.credits.schemas import TaskCredit
from workhook.work.money.invoices.schemas import Invoice
from workhook.work.money.payments.schemas import Payment
from workhook.work.money.services.schemas import Service
from workhook.work.time.timesheets.budgets import BudgetReachedShape
from workhook.work.time.timesheets.schemas import TimesheetShape

RECORDS: dict[str, type[msgspec.Struct]] = {
    "budget": BudgetReachedShape,
    "client": Client,
    "column": Column,
    "commit": CommitShape,
    "credit_note": CreditNote,
    "file": File,
    "file_comment": FileComment,
    "file_comment_reply": Reply,
    "folder": Folder,
    "invoice": Invoice,
    "member": PersonShape,
    "payment": Payment,
    "project": Project,
    "service": Service,
    "service_checkout": ServiceCheckoutShape,
    "task": Task,
    "task_comment": TaskComment,
    "task_credit": TaskCredit,
    "timesheet": TimesheetShape,
}
"""The records in events: the main record by the name of its event, and the records next to it."""

_SIMPLE: dict[Any, Schema] = {str: TEXT, bool: FLAG, int: COUNT, float: AMOUNT, int | float: AMOUNT}


def schemas() -> dict[str, Schema]:
    """Return the schemas by the name of the event."""
    return {name: _of_struct(struct) for name, struct in RECORDS.items()}


def _of_struct(struct: type[msgspec.Struct]) -> Schema:
    if struct is PersonShape:  # events also carry people from other sources
        return USER
    marks = {each: each.mark(EventSchema) for each in shown_fields(struct)}
    optional = [each.json_name for each, mark in marks.items() if mark is not None and mark.optional]
    return record({each.json_name: _of_field(each, mark) for each, mark in marks.items()}, optional=optional)


def _of_field(field: RecordField, mark: EventSchema | None) -> Schema:
    form = field.mark(JsonForm)
    schema = _of_type(form.kind if form else field.base_type, field.name)
    if mark is DESCRIBED:
        [text] = [str(each.description) for each in field.hint.__metadata__ if isinstance(each, msgspec.Meta)]
        schema = {**schema, "description": text[0].lower() + text[1:].rstrip(".")}
    elif mark is not None and mark.schema is not None:
        schema = dict(mark.schema) if "type" in mark.schema else {**schema, **mark.schema}
    return nullable(schema) if field.nullable else schema


def _of_type(kind: Any, name: str) -> Schema:
    """Return the schema of a type.

    The `name` of the field distinguishes IDs and times from plain numbers and strings.
    """
    if get_origin(kind) is Annotated:
        return _of_type(kind.__origin__, name)
    arguments = get_args(kind)
    if get_origin(kind) is Literal:
        return one_of(*arguments)
    if get_origin(kind) in (Union, types.UnionType):
        return _SIMPLE[int | float]
    if get_origin(kind) is dict:
        return map_of(_of_type(arguments[1], ""))
    if arguments:
        return list_of(_of_type(arguments[0], ""))
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return _of_struct(kind)
    if kind is int and (name == "id" or name.endswith("_id")):
        return INTEGER_ID
    if kind is str and name.endswith("_at"):
        return {**TEXT, "format": "date-time"}
    return _SIMPLE[kind]


def rendered() -> str:
    """Return the contents of the file."""
    return json.dumps(schemas(), indent=1) + "\n"


def main() -> None:
    RESOURCES_FILE.write_text(rendered(), encoding="utf-8")


if __name__ == "__main__":
    main()
