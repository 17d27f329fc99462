"""The pages and forms of a board."""

from __future__ import annotations

from workhook.http.calls import Answer
from workhook.http.endpoints import Retry
from workhook.identity.context import Write
from workhook.web.board.view import read_board
from workhook.web.frame.flash import Undo
from workhook.web.frame.places import Places, Visit
from workhook.web.frame.texts import gettext
from workhook.work.columns import api as columns
from workhook.work.tasks import actions, queries
from workhook.work.tasks.schemas import Task, TaskCreate, TaskEdit

places = Places("board")
BUSY = Retry(queries.Busy, 20)


@places.get("/{owner}/{project}")
async def board(visit: Visit) -> Answer:
    """Show the board of a project."""
    access = await visit.access()
    return visit.page("board/board.html", access=access, columns=await read_board(visit.database, visit.actor, access))


@places.post("/{owner}/{project}/columns/{column_id}/tasks")
async def add_task(visit: Visit) -> Answer:
    """Add a card to a column."""
    create = visit.form(TaskCreate, "title")
    task = await visit.change(lambda write: actions.create_task(write, visit.path("column_id"), create), retry=BUSY)
    return visit.done(f"{_address(visit)}#{task.column.id}")


@places.post("/{owner}/{project}/tasks/{task_id}/move")
async def move_task(visit: Visit) -> Answer:
    """Move a card: to `column_id`, at `position`."""
    edit = visit.form(TaskEdit, "column_id", "position")
    task_id = visit.path("task_id")

    async def move(write: Write) -> Task:
        found = await actions.lock_task(write.tx, write.actor, task_id, edit)
        await actions.edit_task(write, found, edit)
        return found.task

    before = await visit.change(move, retry=BUSY)
    place = {"column_id": before.column.id, "position": str(before.position)}
    undo = Undo(f"{_address(visit)}/tasks/{task_id}/move", place)
    return visit.done(_address(visit), gettext("“%(title)s” was moved.") % {"title": before.title}, undo=undo)


@places.post("/{owner}/{project}/columns")
async def add_column(visit: Visit) -> Answer:
    """Add a column at the end."""
    access = await visit.access()
    create = visit.form(columns.ColumnCreate, "title")
    await visit.change(lambda write: columns.add_column(write, access.repository.project_id, create))
    return visit.done(_address(visit))


def _address(visit: Visit) -> str:
    return f"/{visit.path('owner')}/{visit.path('project')}"
