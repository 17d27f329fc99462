"""Reading a task with the visitor's rights, and its fields in forms."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping
from datetime import UTC
from decimal import Decimal
from functools import partial
from typing import Any

import msgspec
from msgspec.structs import replace

from workhook.core import json
from workhook.core.clock import now_ms, to_millis_text
from workhook.core.errors import Invalid
from workhook.core.money import to_minor_or_none
from workhook.http.lists import Rows
from workhook.identity.schemas import Actor
from workhook.storage import Reader
from workhook.web.files.view import last_edits
from workhook.web.frame.formats import reader_zone, typed_amount
from workhook.web.frame.names import Names
from workhook.web.frame.paging import that_fit
from workhook.web.frame.places import AmountField, Visit
from workhook.web.time.days import read_duration
from workhook.work.board import columns
from workhook.work.board.projects.schemas import find_label_colors
from workhook.work.board.tasks import actions, assignees
from workhook.work.board.tasks.imported_fields import imported_of, own_fields
from workhook.work.board.tasks.inputs import TaskEdit
from workhook.work.board.tasks.listing import list_labels, list_tasks
from workhook.work.board.tasks.queries import find_related
from workhook.work.board.tasks.recurrence import occurrence_after
from workhook.work.board.tasks.relations import SUBTASKS_MAX
from workhook.work.board.tasks.schemas import TERMS, Task, completes, urgency
from workhook.work.discussion.actions import find_imported, list_task_comments
from workhook.work.files.actions import FILES
from workhook.work.kernel.access import Access
from workhook.work.kernel.day_bounds import find_zone
from workhook.work.kernel.durations import format_duration
from workhook.work.kernel.lists import NEWEST_FIRST, read
from workhook.work.kernel.scopes import source_of_project
from workhook.work.time.timesheets.queries import TIMESHEETS
from workhook.work.time.timesheets.rules import elapsed_ms
from workhook.work.time.timesheets.schemas import Timesheet
from workhook.work.time.timesheets.sums import find_spent_on_task

COMMENTS_MAX = 200
FILES_MAX = 100
TIMESHEETS_MAX = 200
DONE, OPEN = "complete", "incomplete"
"""The values of checklist items, as in Trello's exports. Other values are shown as text."""


class ChecklistView(msgspec.Struct, frozen=True):
    """A checklist: one section of a task. Items that are neither ticked nor unticked do not count toward `total`."""

    name: str
    items: Mapping[str, str]

    @property
    def total(self) -> int:
        return sum(value in (DONE, OPEN) for value in self.items.values())

    @property
    def done(self) -> int:
        return sum(value == DONE for value in self.items.values())


async def read_task(reader: Reader, actor: Actor, access: Access, task_id: str, after: int) -> dict[str, Any]:
    """Return everything on the page of a task, with comments after the ID `after`. Raises `NotFound`."""
    task = await actions.get_task(reader, actor, task_id, project_id=access.repository.project_id)
    found_columns, people, known_labels, comments, hanging, times = await asyncio.gather(
        columns.list_board_columns(reader, access.repository.id),
        assignees.list_people(reader, access),
        list_labels(reader, access),
        list_task_comments(reader, actor, task_id, after=(after,), limit=COMMENTS_MAX + 1),
        asyncio.gather(
            read(reader, FILES, source_of_project(access), {"task_id": task_id}, after=None, limit=FILES_MAX + 1),
            _read_subtasks(reader, access, task),
            find_related(
                reader, access.repository.id, {*task.blocked_by, *filter(None, [task.parent_id, task.next_id])}
            ),
            find_label_colors(reader, access.repository.id),
        ),
        _read_times(reader, access, task_id),
    )
    files, subtasks, related, label_colors = hanging
    shown_comments = that_fit(comments, COMMENTS_MAX, lambda each: len(each.text))
    now, fields, is_completed = now_ms(), json.decode(task.fields), task.completed_at is not None
    zone = await find_zone(reader, access.repository.id) if task.repeat else UTC
    following = occurrence_after(task, now, zone)
    has_more_times = times.truncated or len(times) > TIMESHEETS_MAX
    spent_ms = await find_spent_on_task(reader, task_id, now) if has_more_times else None
    writers = [*(each.user for each in shown_comments), *(each.user for each in times[:TIMESHEETS_MAX])]
    return {
        "task": task,
        "labels": json.decode(task.labels),
        "label_colors": label_colors,
        "fields": own_fields(fields),
        "origin": imported_of(fields),
        "checklists": [ChecklistView(name, items) for name, items in json.decode(task.sections).items()],
        "columns": found_columns,
        "has_both_kinds": len({completes(each.stage, each.finished) for each in found_columns}) == 2,
        "people": people,
        "names": Names([*people, *task.assignees, *writers]),
        "known_labels": known_labels,
        "comments": shown_comments,
        "more_comments": comments.truncated or len(comments) > len(shown_comments),
        "subtasks": subtasks[:SUBTASKS_MAX],
        "more_subtasks": len(subtasks) > SUBTASKS_MAX,
        # The next three don't include tasks in the trash.
        "parent": related.get(task.parent_id or ""),
        "next_task": related.get(task.next_id or ""),
        "blockers": [related[each] for each in task.blocked_by if each in related],
        "files": files[:FILES_MAX],
        "more_files": len(files) > FILES_MAX,
        **_times(task, times, actor.user.id, spent_ms),
        "more_timesheets": has_more_times,
        "may_edit": access.may_change(task.user_id),
        "may_set_rate": access.may_write and access.repository.role == "admin",
        "next_deadline": following.at if following else None,
        "is_late": urgency(task.deadline, is_completed=is_completed, now=now, zone=reader_zone()) == "bad",
        "digest": partial(digest, task),
        "edits": await last_edits(reader, access, "task_comment", comments),
        "imported": await find_imported(reader, access, shown_comments),
    }


def _times(task: Task, times: Rows[Timesheet], user_id: int, spent_ms: int | None) -> dict[str, Any]:
    """Return the newest entries with their durations, oldest first, the sum of all, and the user's unfinished timer.

    `spent_ms` is the sum, or None if it is that of `times`.
    """
    shown, now = times[TIMESHEETS_MAX - 1 :: -1], now_ms()
    timesheets = [(each, elapsed_ms(each.times, now)) for each in shown]
    spent_ms = sum(spent for _, spent in timesheets) if spent_ms is None else spent_ms
    mine = [each for each in shown if each.user.id == user_id and not each.times.finished]
    return {
        "timesheets": timesheets,
        "spent_ms": spent_ms,
        "percent": min(100, spent_ms * 100 // (task.estimate_ms or 1)),  # of the estimate
        "timer": next((each for each in mine if each.times.is_active), mine[-1] if mine else None),
    }


async def _read_subtasks(reader: Reader, access: Access, task: Task) -> list[Task]:
    if not task.subtasks.total:
        return []
    return await list_tasks(
        reader, source_of_project(access), {"parent_id": task.id}, after=None, limit=SUBTASKS_MAX + 1
    )


async def _read_times(reader: Reader, access: Access, task_id: str) -> Rows[Timesheet]:
    if access.is_client:
        return Rows()
    source, filters, limit = source_of_project(access), {"task_id": task_id}, TIMESHEETS_MAX + 1
    return await read(reader, TIMESHEETS, source, filters, order=NEWEST_FIRST, after=None, limit=limit)


# --- fields in forms -------------------------------------------------------------------------------------------------


def value_of(task: Task, name: str) -> object:
    return task.column.id if name == "column_id" else getattr(task, TERMS.get(name, name))


def says(edit: TaskEdit, name: str, task: Task) -> bool:
    """Return whether the task already has the value of the edit."""
    wanted = getattr(edit, name)
    if isinstance(wanted, Decimal):
        wanted = to_minor_or_none(wanted, task.project.currency)
    return bool(value_of(task, name) == wanted)


def digest(task: Task, name: str) -> str:
    """Return a digest of a field's value. The form submits it, to detect changes made after its page was rendered."""
    return hashlib.sha256(json.encode(value_of(task, name))).hexdigest()[:32]


def typed_value(name: str, value: object, currency: str) -> str:
    """Format a value for its form field without loss. `currency` applies to rates."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        if name == "hourly_rate":
            return typed_amount(value, currency)
        if name == "deadline":
            return to_millis_text(value)
        if name == "estimate":
            return format_duration(value)
    return str(value)


def read_edit(visit: Visit, name: str, project_id: str, currency: str) -> TaskEdit:
    """Read the edit of one field's form. Raises `Invalid`."""
    if name == "estimate" and (typed := visit.fields[name].strip()):
        try:
            return visit.form(TaskEdit, project_id=project_id, estimate=read_duration(typed))
        except Invalid as problem:
            raise Invalid(faults=[replace(each, field=name) for each in problem.faults]) from None
    return visit.form(TaskEdit, AmountField(name, currency) if name == "hourly_rate" else name, project_id=project_id)
