"""The board, and the forms of a single card."""

from __future__ import annotations

import asyncio
from urllib.parse import urlencode

from workhook.http.calls import Answer
from workhook.http.endpoints import Retry
from workhook.identity.context import Write
from workhook.web.board.view import FILTERS, read_board
from workhook.web.frame import paging
from workhook.web.frame.flash import Undo
from workhook.web.frame.names import logins_of
from workhook.web.frame.places import Places, Visit
from workhook.web.frame.texts import gettext
from workhook.web.home import PROJECT_TEMPLATES
from workhook.work.board.filters import find_filters, save_filters
from workhook.work.board.tasks import actions, choices, queries
from workhook.work.board.tasks.inputs import TaskCreate, TaskEdit
from workhook.work.board.tasks.schemas import Task

places = Places("board")
BUSY = Retry(queries.Busy, 20)
FILTER_MAX = 255  # characters


@places.get("/{owner}/{project}")
async def board(visit: Visit) -> Answer:
    """Show the board of a project."""
    access = await visit.follow()
    given = paging.given(visit)
    filters = {name: given[name] for name in FILTERS if name in given}
    back = paging.with_query(visit) if filters else ""
    filters = filters or await find_filters(visit.database, access)
    shown, people, labels = await asyncio.gather(
        read_board(visit.database, access, filters),
        logins_of(visit.database, access),
        choices.list_labels(visit.database, access),
    )
    return visit.page(
        "board/board.html",
        access=access,
        board=shown,
        filters=filters,
        given={name: filters.get(name, "") for name in FILTERS},
        people=people,
        labels=labels,
        back=back,
        may_write=access.may_write,
        may_arrange=access.may_write and not access.is_client,
        starter=PROJECT_TEMPLATES[0],
    )


@places.post("/{owner}/{project}/board/filters", action="page.view")
async def filter_cards(visit: Visit) -> Answer:
    """Show the cards that fit, now and whenever the visitor comes back to the board. `all`: show all cards again."""
    access = await visit.access()
    sent = {} if "all" in visit.fields else visit.fields
    filters = {name: sent[name][:FILTER_MAX] for name in FILTERS if sent.get(name)}
    await visit.change(lambda write: save_filters(write, access, filters))
    address = paging.project_address(visit)
    return visit.done(f"{address}?{urlencode(filters)}" if filters else address)


@places.post("/{owner}/{project}/columns/{column_id}/tasks", makes=True, action="task.create")
async def add_task(visit: Visit) -> Answer:
    """Add a card to a column."""
    access = await visit.access()
    create = visit.form(TaskCreate, "title", project_id=access.repository.project_id)
    task = await visit.change(lambda write: actions.create_task(write, visit.path("column_id"), create), retry=BUSY)
    return visit.done(f"{board_address(visit)}#{task.column.id}")


@places.post("/{owner}/{project}/tasks/{task_id}/move", action="task.edit")
async def move_task(visit: Visit) -> Answer:
    """Move a card: to `column_id`, at `position`."""
    access = await visit.access()
    edit = visit.form(TaskEdit, "column_id", "position", project_id=access.repository.project_id)
    task_id = visit.path("task_id")

    async def move(write: Write) -> tuple[Task, Task]:
        found = await actions.lock_task(write.tx, write.actor, task_id, edit)
        return found.task, await actions.edit_task(write, found, edit)

    before, after = await visit.change(move, retry=BUSY)
    place = {"column_id": before.column.id, "position": str(before.position), "back": visit.fields.get("back", "")}
    undo = Undo(f"{paging.project_address(visit)}/tasks/{task_id}/move", place)
    said = gettext("“%(title)s” is number %(number)s in “%(column)s” now.") % {
        "title": before.title,
        "number": after.position + 1,
        "column": after.column.title,
    }
    return visit.done(board_address(visit), said, undo=undo)


def board_address(visit: Visit) -> str:
    """With the filters that the page of the form had."""
    return paging.back_to(visit, paging.project_address(visit))
