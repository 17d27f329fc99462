"""Changes of one field of a task where it is shown, and the way back from each."""

from __future__ import annotations

from datetime import UTC

from workhook.core.clock import to_millis_text
from workhook.core.zones import day_in, is_day, moved_to
from workhook.http.endpoints import Retry
from workhook.identity.context import Write
from workhook.web.frame.flash import Undo
from workhook.web.frame.places import Visit
from workhook.web.frame.zones import reader_zone
from workhook.work.board.tasks import actions, queries
from workhook.work.board.tasks.inputs import TaskEdit
from workhook.work.board.tasks.schemas import Task
from workhook.work.kernel.access import Access

BUSY = Retry(queries.Busy, 20)
FIELDS = ("priority", "deadline", "column_id", "position")
PERSON = "person-"  # and a login: a box of the form that chooses people


def edit_of(visit: Visit, access: Access) -> TaskEdit:
    """The change that the form asks for. Raises `Invalid`."""
    names = [name for name in FIELDS if name in visit.fields]
    more: dict[str, object] = {"project_id": access.repository.project_id}
    if "people" in visit.fields:
        chosen = (name.removeprefix(PERSON) for name in visit.fields if name.startswith(PERSON))
        more["assignees"] = list(chosen)
    return visit.form(TaskEdit, *names, **more)


async def edit_task(visit: Visit, task_id: str, edit: TaskEdit) -> tuple[Task, Task]:
    """The task before and after the change. A day without a time keeps the time that the deadline had."""

    async def change(write: Write) -> tuple[Task, Task]:
        found = await actions.lock_task(write.tx, write.actor, task_id, edit)
        before = found.task
        keep_time(visit, edit, before)
        seen = await actions.get_task(write.tx, write.actor, task_id)  # without the people whom a client does not see
        return seen, await actions.edit_task(write, found, edit)

    return await visit.change(change, retry=BUSY)


def keep_time(visit: Visit, edit: TaskEdit, before: Task) -> None:
    """Turn a typed day into the time of day that the deadline had, on that day of the reader."""
    is_typed_day = len(visit.fields.get("deadline", "")) == len("2026-11-24")
    if is_typed_day and isinstance(edit.deadline, int) and before.deadline is not None and is_day(edit.deadline):
        edit.deadline = moved_to(day_in(edit.deadline, UTC), before.deadline, reader_zone())


def undo_of(action: str, before: Task, edit_fields: dict[str, str]) -> Undo:
    """The form that gives the changed fields their values of before."""
    fields = {"back": edit_fields.get("back", "")}
    if "priority" in edit_fields:
        fields["priority"] = before.priority or ""
    if "deadline" in edit_fields:
        fields["deadline"] = "" if before.deadline is None else to_millis_text(before.deadline)
    if "column_id" in edit_fields:
        fields |= {"column_id": before.column.id, "position": str(before.position)}
    if "people" in edit_fields:
        fields |= {"people": "1", **{PERSON + person.login: "on" for person in before.assignees}}
    return Undo(action, fields)
