"""Reading a task with the visitor's rights, and its fields in forms."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from datetime import UTC, tzinfo
from decimal import Decimal

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
from workhook.work.board.tasks import actions, choices
from workhook.work.board.tasks.imported_fields import Imported, imported_of, own_fields
from workhook.work.board.tasks.inputs import TaskEdit
from workhook.work.board.tasks.listing import list_tasks
from workhook.work.board.tasks.queries import RelatedTask, find_related
from workhook.work.board.tasks.recurrence import occurrence_after
from workhook.work.board.tasks.relations import SUBTASKS_MAX
from workhook.work.board.tasks.schemas import TERMS, Column, Task, completes, urgency
from workhook.work.discussion.actions import find_imported, list_task_comments
from workhook.work.discussion.schemas import TaskComment
from workhook.work.files.actions import FILES
from workhook.work.files.schemas import File
from workhook.work.history.activity.task_history import LastEdit
from workhook.work.kernel.access import Access
from workhook.work.kernel.day_bounds import find_zone
from workhook.work.kernel.durations import format_duration
from workhook.work.kernel.lists import read
from workhook.work.kernel.people import PersonShape
from workhook.work.kernel.scopes import source_of_project
from workhook.work.time.timesheets.queries import TIMESHEETS
from workhook.work.time.timesheets.rules import elapsed_ms
from workhook.work.time.timesheets.schemas import Timesheet

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


class TaskView(msgspec.Struct, frozen=True):
    """A task and everything on its page. `may_edit` is the right to change it, and `may_set_rate` its hourly rate."""

    task: Task
    labels: Sequence[str]
    label_colors: Mapping[str, str]
    fields: Mapping[str, str]
    origin: Imported | None
    checklists: Sequence[ChecklistView]
    columns: Sequence[Column]
    people: Sequence[PersonShape]
    known_labels: Sequence[str]
    comments: Sequence[TaskComment]
    more_comments: bool
    subtasks: Sequence[Task]
    more_subtasks: bool
    parent: RelatedTask | None
    """None if there is no parent, or it is in the trash."""
    next_task: RelatedTask | None
    """The next occurrence, created when the task was completed; None if there is none, or it is in the trash."""
    blockers: Sequence[RelatedTask]
    """Blockers, except those in the trash."""
    files: Sequence[File]
    more_files: bool
    timesheets: Sequence[tuple[Timesheet, int]]
    more_timesheets: bool
    may_edit: bool
    may_set_rate: bool
    zone: tzinfo
    """The project's time zone, in which the task repeats."""
    edits: Mapping[str, LastEdit]
    """The last edits of the comments, by ID as a string."""
    imported: frozenset[int]
    """IDs of comments that the visitor imported rather than wrote."""

    @property
    def has_both_kinds(self) -> bool:
        """Return whether subtasks can be ticked: this needs a column of open and one of completed tasks."""
        return len({completes(each.stage, each.finished) for each in self.columns}) == 2

    @property
    def next_deadline(self) -> int | None:
        following = occurrence_after(self.task, now_ms(), self.zone)
        return following.at if following else None

    @property
    def is_late(self) -> bool:
        is_completed, zone = self.task.completed_at is not None, reader_zone()
        return urgency(self.task.deadline, is_completed=is_completed, now=now_ms(), zone=zone) == "bad"

    @property
    def spent_ms(self) -> int:
        return sum(spent for _, spent in self.timesheets)

    @property
    def names(self) -> Names:
        writers = [*(each.user for each in self.comments), *(each.user for each, _ in self.timesheets)]
        return Names([*self.people, *self.task.assignees, *writers])

    @property
    def percent(self) -> int:
        """Return the time spent as a percentage of the estimate, at most 100."""
        return min(100, self.spent_ms * 100 // (self.task.estimate_ms or 1))

    def digest(self, name: str) -> str:
        return digest(self.task, name)

    def timer_of(self, user_id: int) -> Timesheet | None:
        """Return the user's unfinished timer on the task."""
        mine = [each for each, _ in self.timesheets if each.user.id == user_id and not each.times.finished]
        return next((each for each in mine if each.times.is_active), mine[-1] if mine else None)


async def read_task(reader: Reader, actor: Actor, access: Access, task_id: str, after: int) -> TaskView:
    """Return the task's page with comments after the ID `after`. Raises `NotFound`."""
    task = await actions.get_task(reader, actor, task_id, project_id=access.repository.project_id)
    found_columns, people, known_labels, comments, hanging, times = await asyncio.gather(
        columns.list_board_columns(reader, access.repository.id),
        choices.list_people(reader, access),
        choices.list_labels(reader, access),
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
    now, fields = now_ms(), json.decode(task.fields)
    return TaskView(
        task=task,
        labels=json.decode(task.labels),
        label_colors=label_colors,
        fields=own_fields(fields),
        origin=imported_of(fields),
        checklists=[ChecklistView(name, items) for name, items in json.decode(task.sections).items()],
        columns=found_columns,
        people=people,
        known_labels=known_labels,
        comments=shown_comments,
        more_comments=comments.truncated or len(comments) > len(shown_comments),
        subtasks=subtasks[:SUBTASKS_MAX],
        more_subtasks=len(subtasks) > SUBTASKS_MAX,
        parent=related.get(task.parent_id or ""),
        next_task=related.get(task.next_id or ""),
        blockers=[related[each] for each in task.blocked_by if each in related],
        files=files[:FILES_MAX],
        more_files=len(files) > FILES_MAX,
        timesheets=[(each, elapsed_ms(each.times, now)) for each in times[:TIMESHEETS_MAX]],
        more_timesheets=times.truncated or len(times) > TIMESHEETS_MAX,
        may_edit=access.may_change(task.user_id),
        may_set_rate=access.may_write and access.repository.role == "admin",
        zone=await find_zone(reader, access.repository.id) if task.repeat else UTC,
        edits=await last_edits(reader, access, "task_comment", comments),
        imported=await find_imported(reader, access, shown_comments),
    )


async def _read_subtasks(reader: Reader, access: Access, task: Task) -> list[Task]:
    if not task.subtasks.total:
        return []
    return await list_tasks(
        reader, source_of_project(access), {"parent_id": task.id}, after=None, limit=SUBTASKS_MAX + 1
    )


async def _read_times(reader: Reader, access: Access, task_id: str) -> Rows[Timesheet]:
    if access.is_client:
        return Rows()
    filters, limit = {"task_id": task_id}, TIMESHEETS_MAX + 1
    return await read(reader, TIMESHEETS, source_of_project(access), filters, after=None, limit=limit)


# --- fields in forms -------------------------------------------------------------------------------------------------


def value_of(task: Task, name: str) -> object:
    """Return the value of the API field `name`."""
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
        return (
            to_millis_text(value)
            if name == "deadline"
            else format_duration(value)
            if name == "estimate"
            else str(value)
        )
    return str(value)


def read_edit(visit: Visit, name: str, project_id: str, currency: str) -> TaskEdit:
    """Read the edit of one field's form. Raises `Invalid`."""
    if name == "estimate" and (typed := visit.fields[name].strip()):
        try:
            return visit.form(TaskEdit, project_id=project_id, estimate=read_duration(typed))
        except Invalid as problem:
            raise Invalid(faults=[replace(each, field=name) for each in problem.faults]) from None
    return visit.form(TaskEdit, AmountField(name, currency) if name == "hourly_rate" else name, project_id=project_id)
