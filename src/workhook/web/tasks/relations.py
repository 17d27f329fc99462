"""The forms of a task's subtasks and blockers, and the search for a blocker."""

from __future__ import annotations

from collections.abc import Sequence

from workhook.core.errors import Malformed, NotFound
from workhook.http.calls import Response
from workhook.identity.context import Write
from workhook.web.frame.flash import Undo
from workhook.web.frame.places import Places, Visit
from workhook.web.frame.texts import gettext
from workhook.web.listing import BUSY
from workhook.web.tasks.task import address, task_at
from workhook.work.board import columns
from workhook.work.board.tasks import actions, listing
from workhook.work.board.tasks.inputs import TaskCreate, TaskEdit
from workhook.work.board.tasks.matching import QUERY_MAX_CHARS, words_of
from workhook.work.board.tasks.schemas import Column, Task, completes
from workhook.work.kernel.scopes import source_of_project

# --- subtasks ---------------------------------------------------------------------------------------------------------

subtask_places = Places("subtasks")


@subtask_places.post("/{owner}/{project}/tasks/{task_id}/subtasks", makes=True, action="task.create")
async def add_subtask(visit: Visit) -> Response:
    """Add a subtask to its parent's column, or to the first column of open tasks if that one completes tasks."""
    access, task = await task_at(visit)
    found = await columns.list_board_columns(visit.database, access.repository.id)
    column = next((each for each in found if each.id == task.column.id), None)
    if column is None or is_final(column):
        column = column_for(found, completed=False) or column
    if column is None:
        raise NotFound()
    column_id = column.id
    create = visit.form(TaskCreate, "title", parent_id=task.id, project_id=access.repository.project_id)
    await visit.change(lambda write: actions.create_task(write, column_id, create), retry=BUSY)
    return visit.done(f"{address(visit)}#subtasks")


@subtask_places.post("/{owner}/{project}/tasks/{task_id}/subtasks/{subtask_id}/tick", action="task.edit")
async def tick_subtask(visit: Visit) -> Response:
    """Complete or reopen a subtask (`done` is 1 or 0) by moving it to the first column that does so."""
    access, task = await task_at(visit)
    found = await columns.list_board_columns(visit.database, access.repository.id)
    column = column_for(found, completed=visit.fields.get("done") == "1")
    if column is None:
        raise Malformed("Problems parsing the form")
    edit = TaskEdit(column_id=column.id, project_id=access.repository.project_id)

    async def change(write: Write) -> None:
        locked = await actions.lock_task(write.tx, write.actor, visit.path("subtask_id"), edit)
        if locked.task.parent_id != task.id:
            raise NotFound()
        await actions.edit_task(write, locked, edit)

    await visit.change(change, retry=BUSY)
    return visit.done(f"{address(visit)}#subtasks")


def is_final(column: Column) -> bool:
    """Return whether tasks that enter the column are completed."""
    return completes(column.stage, column.finished)


def column_for(found: Sequence[Column], *, completed: bool) -> Column | None:
    """Return the first column of completed or of open tasks."""
    return next((each for each in found if is_final(each) == completed), None)


# --- blockers ---------------------------------------------------------------------------------------------------------

blocker_places = Places("task_waits")
FOUND_MAX = 20


@blocker_places.get("/{owner}/{project}/tasks/{task_id}/waits")
async def find_blockers(visit: Visit) -> Response:
    """Search for open tasks with the words `q` that could block the task."""
    access, task = await task_at(visit)
    asked = visit.query("q").strip()[:QUERY_MAX_CHARS]
    found: list[Task] = []
    if words := words_of(asked):
        filters = {"q": words, "finished": False}
        page = await listing.list_tasks(visit.database, source_of_project(access), filters, after=None, limit=FOUND_MAX)
        found = [each for each in page if each.id != task.id and each.id not in task.blocked_by]
    return visit.page("tasks/waits.html", access=access, task=task, here=address(visit), q=asked, found=found)


@blocker_places.post("/{owner}/{project}/tasks/{task_id}/waits", action="task.edit")
async def change_blockers(visit: Visit) -> Response:
    """Add a blocker to a task (`add`), or remove one (`remove`)."""
    access = await visit.access()
    added, gone = visit.fields.get("add", ""), visit.fields.get("remove", "")
    if not added and not gone:
        raise Malformed("Problems parsing the form")
    plain = TaskEdit(project_id=access.repository.project_id)

    async def change(write: Write) -> None:
        found = await actions.lock_task(write.tx, write.actor, visit.path("task_id"), plain)
        wanted = {*found.task.blocked_by, *([added] if added else [])} - {gone}
        await actions.edit_task(write, found, visit.form(TaskEdit, blocked_by=sorted(wanted)))

    await visit.change(change, retry=BUSY)
    if not gone:
        return visit.done(f"{address(visit)}#waits")
    return visit.done(
        f"{address(visit)}#waits",
        gettext("The blocker was removed."),
        undo=Undo(f"{address(visit)}/waits", {"add": gone}),
    )
