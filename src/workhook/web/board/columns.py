"""The forms that change the columns of a board."""

from __future__ import annotations

from typing import Any

from workhook.core.errors import NotFound
from workhook.http.calls import Answer
from workhook.identity.context import Write
from workhook.web.board.board import BUSY, board_address
from workhook.web.board.selection import moved_to, places_of
from workhook.web.frame import paging
from workhook.web.frame.flash import Undo
from workhook.web.frame.places import Places, Visit
from workhook.web.frame.texts import gettext, ngettext
from workhook.web.home import PROJECT_TEMPLATES, add_columns
from workhook.work.board import columns
from workhook.work.board.tasks import bulk, column_tasks
from workhook.work.board.tasks.bulk import OPERATIONS_MAX
from workhook.work.board.tasks.schemas import Column
from workhook.work.kernel.access import Access

places = Places("columns")


@places.post("/{owner}/{project}/columns", makes=True, action="column.create")
async def add_column(visit: Visit) -> Answer:
    """Add a column at the end, or the columns of a template to a board without any."""
    access = await visit.access()
    if "template" in visit.fields:
        await visit.change(lambda write: add_columns(write, access.repository.project_id, PROJECT_TEMPLATES[0]))
        return visit.done(board_address(visit))
    create = visit.form(columns.ColumnCreate, "title")
    made = await visit.change(lambda write: columns.add_column(write, access.repository.project_id, create))
    return visit.done(f"{board_address(visit)}#{made.id}")


@places.post("/{owner}/{project}/columns/{column_id}/edit", action="column.edit")
async def edit_column(visit: Visit) -> Answer:
    """Rename a column, and say what happens to cards that come into it."""
    _, before, _ = await _column(visit)
    flags = {name: name in visit.fields for name in ("finished", "start_timer")}
    stage = {"stage": None} if before.stage == "done" and not flags["finished"] else {}
    edit = visit.form(columns.ColumnEdit, "title", **flags, **stage)
    await visit.change(lambda write: columns.edit_column(write, before.id, edit))
    kept = {"title": before.title, **{name: "1" for name in flags if getattr(before, name)}}
    undo = Undo(f"{paging.project_address(visit)}/columns/{before.id}/edit", kept)
    return visit.done(board_address(visit), gettext("The column was changed."), undo=undo)


@places.post("/{owner}/{project}/columns/{column_id}/place", action="column.edit")
async def place_column(visit: Visit) -> Answer:
    """Put a column at `position`."""
    _, before, _ = await _column(visit)
    edit = visit.form(columns.ColumnEdit, "position")
    await visit.change(lambda write: columns.edit_column(write, before.id, edit))
    undo = Undo(f"{paging.project_address(visit)}/columns/{before.id}/place", {"position": str(before.position)})
    said = gettext("“%(title)s” was moved.") % {"title": before.title}
    return visit.done(board_address(visit), said, undo=undo)


@places.post("/{owner}/{project}/columns/{column_id}/empty", action="task.bulk")
async def move_all(visit: Visit) -> Answer:
    """Move all cards of a column to the end of the column `to`."""
    access, column, found = await _column(visit)
    target = next((each for each in found if each.id == visit.fields.get("to")), None)
    if target is None or target.id == column.id:
        raise NotFound()

    async def move(write: Write) -> dict[str, list[tuple[int, str]]]:
        before = await _cards(visit, write, access, column)
        if before[column.id]:
            await bulk.change_tasks(write, moved_to(target.id, [task_id for _, task_id in before[column.id]]))
        return before

    before = await visit.change(move, retry=BUSY)
    number = len(before[column.id])
    undo = Undo(f"{paging.project_address(visit)}/board/places", {"places": places_of(before)}) if number else None
    said = ngettext("%(num)s card was moved.", "%(num)s cards were moved.", number) % {"num": number}
    return visit.done(board_address(visit), said, undo=undo)


@places.post("/{owner}/{project}/columns/{column_id}/delete", action="column.delete")
async def delete_column(visit: Visit) -> Answer:
    """Delete a column. Its cards move to the first other column."""
    access, column, _ = await _column(visit)

    async def delete(write: Write) -> str:
        before = await _cards(visit, write, access, column)
        await columns.delete_column(write, column.id)
        return ",".join(task_id for _, task_id in before[column.id])

    cards = await visit.change(delete, retry=BUSY)
    flags = {name: "1" for name in ("finished", "start_timer") if getattr(column, name)}
    kept = {"title": column.title, "position": str(column.position), "stage": column.stage or "", "cards": cards}
    undo = Undo(f"{paging.project_address(visit)}/board/column", {**kept, **flags})
    said = gettext("The column “%(title)s” was deleted.") % {"title": column.title}
    return visit.done(board_address(visit), said, undo=undo)


@places.post("/{owner}/{project}/board/column", makes=True, action="column.restore")
async def bring_back(visit: Visit) -> Answer:
    """Make a column again that was deleted, with its cards."""
    access = await visit.access()
    flags = {name: name in visit.fields for name in ("finished", "start_timer")}
    create = visit.form(columns.ColumnCreate, "title", "position", "stage", **flags)
    cards = [each for each in visit.fields.get("cards", "").split(",") if each]

    async def make(write: Write) -> None:
        made = await columns.add_column(write, access.repository.project_id, create)
        if cards:
            await bulk.change_tasks(write, moved_to(made.id, cards, access.repository.project_id))

    await visit.change(make, retry=BUSY)
    return visit.done(board_address(visit))


async def _column(visit: Visit) -> tuple[Access, Column, list[Column]]:
    """The column of the path among those of its project. Raises `NotFound`."""
    access = await visit.access()
    found = await columns.list_all(visit.database, access.repository.id)
    column = next((each for each in found if each.id == visit.path("column_id")), None)
    if column is None:
        raise NotFound()
    return access, column, found


async def _cards(visit: Visit, write: Write, access: Access, column: Column) -> dict[str, list[tuple[int, str]]]:
    """The cards of the column in their order, as many as one change can have: position and id, by the column."""
    read = await column_tasks.read_column(write.tx, visit.actor, column.id, after=None, limit=OPERATIONS_MAX)
    tasks: list[Any] = await column_tasks.to_responses(write.tx, read, read.rows)
    return {column.id: [(task.position, task.id) for task in tasks]}
