"""The board page, and the forms of its columns and cards."""

from __future__ import annotations

import asyncio
from collections.abc import Container, Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

import msgspec
from msgspec import UNSET, UnsetType

from workhook.core import json
from workhook.core.clock import now_ms, parse_rfc3339
from workhook.core.errors import Malformed, NotFound, require_found
from workhook.core.text import one_line
from workhook.http.calls import Response
from workhook.http.lists import Key, Rows
from workhook.identity.context import Write
from workhook.identity.queries import key_of
from workhook.storage import Reader
from workhook.web.frame import paging
from workhook.web.frame.flash import Undo
from workhook.web.frame.formats import hue, reader_zone
from workhook.web.frame.names import logins_of
from workhook.web.frame.places import Places, Visit
from workhook.web.frame.texts import gettext, ngettext
from workhook.web.home import PROJECT_TEMPLATES, add_columns
from workhook.web.listing import BUSY
from workhook.work.board import columns
from workhook.work.board.filters import find_filters, save_filters
from workhook.work.board.projects.schemas import find_label_colors
from workhook.work.board.tasks import actions, bulk, column_tasks, listing, queries
from workhook.work.board.tasks.bulk import OPERATIONS_MAX, TaskOperation
from workhook.work.board.tasks.inputs import TaskCreate, TaskEdit, TasksQuery
from workhook.work.board.tasks.schemas import Column, DueSpan, Task, Urgency, due_span, urgency
from workhook.work.discussion.schemas import count_on_tasks, task_comments
from workhook.work.files import schemas as file_schemas
from workhook.work.kernel.access import Access
from workhook.work.kernel.lists import iterate_pages
from workhook.work.kernel.scopes import source_of_project
from workhook.work.time.timesheets.queries import list_running

places = Places("board")
FILTER_MAX = 255  # characters


@places.get("/{owner}/{project}")
async def board(visit: Visit) -> Response:
    access = await visit.follow()
    given = paging.given(visit)
    filters = {name: given[name] for name in FILTERS if name in given}
    back = paging.with_query(visit) if filters else ""
    filters = filters or await find_filters(visit.database, access)
    shown, people, labels = await asyncio.gather(
        read_board(visit.database, access, filters),
        logins_of(visit.database, access),
        listing.list_labels(visit.database, access),
    )
    return visit.page(
        "board/board.html",
        board=shown,
        filters=filters,
        given={name: filters.get(name, "") for name in FILTERS},
        people=people,
        labels=labels,
        back=back,
        starter=PROJECT_TEMPLATES[0],
    )


@places.post("/{owner}/{project}/board/filters", action="page.view")
async def filter_cards(visit: Visit) -> Response:
    """Save the board's filters for the visitor; `all` clears them."""
    access = await visit.access()
    sent = {} if "all" in visit.fields else visit.fields
    filters = {name: sent[name][:FILTER_MAX] for name in FILTERS if sent.get(name)}
    await visit.change(lambda write: save_filters(write, access, filters))
    address = paging.project_address(visit)
    return visit.done(f"{address}?{urlencode(filters)}" if filters else address)


@places.post("/{owner}/{project}/columns/{column_id}/tasks", makes=True, action="task.create")
async def add_task(visit: Visit) -> Response:
    access = await visit.access()
    create = visit.form(TaskCreate, "title", project_id=access.repository.project_id)
    task = await visit.change(lambda write: actions.create_task(write, visit.path("column_id"), create), retry=BUSY)
    return visit.done(f"{board_address(visit)}#{task.column.id}")


@places.post("/{owner}/{project}/tasks/{task_id}/move", action="task.edit")
async def move_task(visit: Visit) -> Response:
    """Move a card to `position` in `column_id`."""
    access = await visit.access()
    edit = visit.form(TaskEdit, "column_id", "position", project_id=access.repository.project_id)
    task_id = visit.path("task_id")

    async def move(write: Write) -> tuple[Task, Task]:
        found = await actions.lock_task(write.tx, write.actor, task_id, edit)
        return found.task, await actions.edit_task(write, found, edit)

    before, after = await visit.change(move, retry=BUSY)
    place = {"column_id": before.column.id, "position": str(before.position), "back": visit.fields.get("back", "")}
    undo = Undo(f"{paging.project_address(visit)}/tasks/{task_id}/move", place)
    message = gettext(
        "“%(title)s” was moved to position %(number)s in “%(column)s”.",
        title=before.title,
        number=after.position + 1,
        column=after.column.title,
    )
    return visit.done(board_address(visit), message, undo=undo)


def board_address(visit: Visit) -> str:
    """Return the board's address with the filters of the page that sent the form."""
    return paging.back_to(visit, paging.project_address(visit))


card_places = Places("selection")

CHOSEN_MAX = 200
CHOSEN = "card-"  # prefix of a card's checkbox, followed by its ID


@card_places.post("/{owner}/{project}/board/cards", action="task.bulk")
async def change_cards(visit: Visit) -> Response:
    """Apply the change named by `step` to the selected cards."""
    access = await visit.access()
    chosen = [name.removeprefix(CHOSEN) for name in visit.fields if name.startswith(CHOSEN)]
    change = _CHANGES.get(visit.fields.get("step", ""))
    if change is None or len(chosen) > CHOSEN_MAX:
        raise Malformed(gettext("Select at most %(number)s cards.", number=CHOSEN_MAX))
    if not chosen:
        return visit.done(board_address(visit), gettext("Select at least one card first."))

    async def apply(write: Write) -> Undo | None:
        also = filter(None, [visit.fields.get("column_id")])
        tasks = await queries.lock_project_tasks(write.tx, access, chosen, set(also))
        operations, undo = change(visit, tasks)
        if operations:
            await bulk.change_tasks(write, operations)
        return undo

    undo = await visit.change(apply, retry=BUSY)
    message = ngettext("%(num)s card was updated.", "%(num)s cards were updated.", len(chosen))
    if visit.fields["step"] == "delete":
        message = ngettext("%(num)s card was deleted.", "%(num)s cards were deleted.", len(chosen))
    return visit.done(board_address(visit), message, undo=undo)


@card_places.post("/{owner}/{project}/board/places", action="task.bulk")
async def put_back(visit: Visit) -> Response:
    """Undo a move or deletion: restore deleted cards, then move all cards back."""
    access = await visit.access()
    wanted = _read_places(visit.fields.get("places", ""))
    project_id = access.repository.project_id

    async def put(write: Write) -> None:
        if "restore" in visit.fields:
            for _, _, task_id in wanted:
                await actions.restore_task(write, task_id, project_id=project_id)
        await bulk.change_tasks(
            write,
            [
                TaskOperation(action="move", id=task_id, column_id=column, position=position, project_id=project_id)
                for column, position, task_id in wanted
            ],
        )

    if wanted:
        await visit.change(put, retry=BUSY)
    return visit.done(board_address(visit))


def moved_to(column_id: str, task_ids: Sequence[str], project_id: str | UnsetType = UNSET) -> list[TaskOperation]:
    """Return the operations that move tasks to the end of a column, in their order."""
    return [TaskOperation(action="move", id=each, column_id=column_id, project_id=project_id) for each in task_ids]


def places_of(cards: Mapping[str, Sequence[tuple[int, str]]]) -> str:
    """Format card positions by column for a form field: `col_1=0:tsk_1,3:tsk_2;col_2=…`."""
    return ";".join(
        f"{column}=" + ",".join(f"{position}:{task_id}" for position, task_id in sorted(each))
        for column, each in cards.items()
    )


def _read_places(text: str) -> list[tuple[str, int, str]]:
    """Parse the output of `places_of` into column, position and ID of each card. Raises `Malformed`."""
    found = []
    for part in filter(None, text.split(";")):
        column, _, cards = part.partition("=")
        for card in filter(None, cards.split(",")):
            position, _, task_id = card.partition(":")
            if not (position.isascii() and position.isdigit() and len(position) < 16):
                raise Malformed("Problems parsing the form")
            found.append((column, int(position), task_id))
    return found


# --- the changes ------------------------------------------------------------------------------------------------------

Planned = tuple[list[TaskOperation], Undo | None]


def _move(visit: Visit, tasks: Sequence[Task]) -> Planned:
    column_id = visit.fields.get("column_id", "")
    return moved_to(column_id, [each.id for each in tasks]), _places_undo(visit, tasks)


def _delete(visit: Visit, tasks: Sequence[Task]) -> Planned:
    undo = _places_undo(visit, tasks, restore="1")
    return [TaskOperation(action="delete", id=each.id) for each in tasks], undo


def _places_undo(visit: Visit, tasks: Sequence[Task], **more: str) -> Undo:
    before: dict[str, list[tuple[int, str]]] = {}
    for each in tasks:
        before.setdefault(each.column.id, []).append((each.position, each.id))
    return Undo(f"{paging.project_address(visit)}/board/places", {"places": places_of(before), **more})


def _label(visit: Visit, tasks: Sequence[Task]) -> Planned:
    label = one_line(visit.fields.get("label", ""))
    if not label:
        raise Malformed(gettext("Enter a label."))
    return _change_list(
        visit, "label", {"label": label}, "labels", {each.id: json.decode(each.labels) for each in tasks}
    )


def _assign(visit: Visit, tasks: Sequence[Task]) -> Planned:
    login = visit.fields.get("login", "")
    if not login:
        raise Malformed(gettext("Choose an assignee."))
    logins = {each.id: [person.login for person in each.assignees] for each in tasks}
    return _change_list(visit, "assign", {"login": login}, "assignees", logins)


def _change_list(visit: Visit, step: str, field: dict[str, str], name: str, before: Mapping[str, list[str]]) -> Planned:
    """Plan to add the value of a form field to the tasks' list field `name`, or to remove it."""
    without, [value] = "without" in visit.fields, field.values()
    operations, chosen = list[TaskOperation](), dict[str, str]()
    for task_id, values in before.items():
        if (value in values) == without:
            after = [each for each in values if each != value] if without else [*values, value]
            edited: dict[str, Any] = {name: after}
            operations.append(TaskOperation(action="edit", id=task_id, **edited))
            chosen[CHOSEN + task_id] = "1"
    if not chosen:
        return operations, None
    fields = {**field, "step": step, "back": visit.fields.get("back", ""), **chosen}
    if not without:
        fields["without"] = "1"
    return operations, Undo(f"{paging.project_address(visit)}/board/cards", fields)


def _priority(visit: Visit, tasks: Sequence[Task]) -> Planned:
    """Set the priority. Undo is offered only if all cards had the same one, because its form can set only one."""
    value = visit.fields.get("priority", "")
    if value not in ("", "low", "medium", "high"):
        raise Malformed("Problems parsing the form")
    operations = [TaskOperation(action="edit", id=each.id, priority=value or None) for each in tasks]  # type: ignore[arg-type]  # one of its literals
    before = {each.priority or "" for each in tasks}
    if len(before) > 1:
        return operations, None
    fields = {"step": "priority", "priority": before.pop(), "back": visit.fields.get("back", "")}
    fields |= {CHOSEN + each.id: "1" for each in tasks}
    return operations, Undo(f"{paging.project_address(visit)}/board/cards", fields)


_CHANGES = {"move": _move, "assign": _assign, "label": _label, "priority": _priority, "delete": _delete}


column_places = Places("columns")


@column_places.post("/{owner}/{project}/columns", makes=True, action="column.create")
async def add_column(visit: Visit) -> Response:
    """Add a column at the end, or the template's columns to an empty board."""
    access = await visit.access()
    if "template" in visit.fields:
        await visit.change(lambda write: add_columns(write, access.repository.project_id, PROJECT_TEMPLATES[0]))
        return visit.done(board_address(visit))
    create = visit.form(columns.ColumnCreate, "title")
    made = await visit.change(lambda write: columns.add_column(write, access.repository.project_id, create))
    return visit.done(f"{board_address(visit)}#{made.id}")


@column_places.post("/{owner}/{project}/columns/{column_id}/edit", action="column.edit")
async def edit_column(visit: Visit) -> Response:
    """Change a column's title and what happens to cards that enter it."""
    _, before, _ = await _column(visit)
    flags = {name: name in visit.fields for name in ("finished", "start_timer")}
    stage = {"stage": None} if before.stage == "done" and not flags["finished"] else {}
    edit = visit.form(columns.ColumnEdit, "title", **flags, **stage)
    await visit.change(lambda write: columns.edit_column(write, before.id, edit))
    kept = {"title": before.title, **{name: "1" for name in flags if getattr(before, name)}}
    undo = Undo(f"{paging.project_address(visit)}/columns/{before.id}/edit", kept)
    return visit.done(board_address(visit), gettext("The column was updated."), undo=undo)


@column_places.post("/{owner}/{project}/columns/{column_id}/place", action="column.edit")
async def place_column(visit: Visit) -> Response:
    _, before, _ = await _column(visit)
    edit = visit.form(columns.ColumnEdit, "position")
    await visit.change(lambda write: columns.edit_column(write, before.id, edit))
    undo = Undo(f"{paging.project_address(visit)}/columns/{before.id}/place", {"position": str(before.position)})
    message = gettext("“%(title)s” was moved.", title=before.title)
    return visit.done(board_address(visit), message, undo=undo)


@column_places.post("/{owner}/{project}/columns/{column_id}/empty", action="task.bulk")
async def move_all(visit: Visit) -> Response:
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
    message = ngettext("%(num)s card was moved.", "%(num)s cards were moved.", number)
    return visit.done(board_address(visit), message, undo=undo)


@column_places.post("/{owner}/{project}/columns/{column_id}/delete", action="column.delete")
async def delete_column(visit: Visit) -> Response:
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
    message = gettext("The column “%(title)s” was deleted.", title=column.title)
    return visit.done(board_address(visit), message, undo=undo)


@column_places.post("/{owner}/{project}/board/column", makes=True, action="column.restore")
async def bring_back(visit: Visit) -> Response:
    """Recreate a deleted column and move its cards back."""
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
    """Return the access, the column in the path and all columns of the project. Raises `NotFound`."""
    access = await visit.access()
    found = await columns.list_board_columns(visit.database, access.repository.id)
    column = require_found(next((each for each in found if each.id == visit.path("column_id")), None))
    return access, column, found


async def _cards(visit: Visit, write: Write, access: Access, column: Column) -> dict[str, list[tuple[int, str]]]:
    """Return the positions and IDs of the column's cards by column ID, at most `OPERATIONS_MAX`."""
    read = await column_tasks.read_column(write.tx, visit.actor, column.id, after=None, limit=OPERATIONS_MAX)
    tasks: list[Any] = await column_tasks.to_responses(write.tx, read, read.rows)
    return {column.id: [(task.position, task.id) for task in tasks]}


# --- reading a board --------------------------------------------------------------------------------------------------

CARDS_MAX = 1000  # per column
TIMERS_MAX = 200
FILTERS = ("q", "assignee", "label", "priority", "due")
TICKED, ITEM = "complete", ("complete", "incomplete")


class BoardCard(msgspec.Struct, frozen=True):
    """A task on the board, as the API returns it.

    `state` is its urgency. `labels` are pairs of name and hue. It has `items` checklist items, of which `ticked` are
    done. `runs` is true if a timer is running.
    """

    task: Any
    deadline: int | None
    state: Urgency
    labels: Sequence[tuple[str, int]]
    comments: int
    files: int
    ticked: int
    items: int
    runs: bool


class BoardColumn(msgspec.Struct, frozen=True):
    """A column and its cards that match the filters. `count` includes the others; `more`: it has over `CARDS_MAX`."""

    column: Column
    cards: Sequence[BoardCard]
    count: int
    more: bool


async def read_board(reader: Reader, access: Access, filters: Mapping[str, str]) -> list[BoardColumn]:
    """Return all columns of the project with the cards that match `filters`."""
    found = await columns.list_board_columns(reader, access.repository.id)
    read = await asyncio.gather(*(_read_tasks(reader, access, column, filters.get("q")) for column in found))
    now, running = now_ms(), set[str]()
    fitting = [[task for task in tasks if fits(task, filters, now, has_words)] for tasks, _, has_words in read]
    ids = [task.id for tasks in fitting for task in tasks]
    comments, files, colors = await asyncio.gather(
        count_on_tasks(reader, access, task_comments, ids),
        count_on_tasks(reader, access, file_schemas.files, ids),
        find_label_colors(reader, access.repository.id),
    )
    if not access.is_client:
        timers = await list_running(reader, access, limit=TIMERS_MAX)
        running = {each.task.id for each in timers if each.task is not None}

    def card(task: Any) -> BoardCard:
        deadline = None if task.deadline is None else parse_rfc3339(task.deadline)
        ticks = [value for items in task.sections.values() for value in items.values() if value in ITEM]
        return BoardCard(
            task,
            deadline,
            urgency(deadline, is_completed=task.completed_at is not None, now=now, zone=reader_zone()),
            labels=[(label, hue(label, colors)) for label in task.labels],
            comments=comments.get(task.id, 0),
            files=files.get(task.id, 0),
            ticked=ticks.count(TICKED),
            items=len(ticks),
            runs=task.id in running,
        )

    return [
        BoardColumn(column, [card(task) for task in shown], len(tasks), more)
        for column, (tasks, more, _), shown in zip(found, read, fitting, strict=True)
    ]


async def _read_tasks(
    reader: Reader, access: Access, column: Column, q: str | None
) -> tuple[Sequence[Any], bool, Container[str] | None]:
    """Return the column's tasks as the API does, whether there are more than `CARDS_MAX`, and which contain `q`."""
    read = await column_tasks.read_column(reader, access.actor, column.id, after=None, limit=CARDS_MAX + 1)
    rows = read.rows[:CARDS_MAX]
    tasks = await column_tasks.to_responses(reader, read, rows)
    has_words = None
    if q is not None and tasks:
        has_words = await _search(reader, access, column, q, column_tasks.list_key(rows[-1]))
    return tasks, len(read.rows) > CARDS_MAX or read.cut, has_words


async def _search(reader: Reader, access: Access, column: Column, q: str, last: Key) -> set[str]:
    """Return the IDs of the column's tasks that contain the words of `q`, as lists of tasks do.

    The search ends at the key `last`, however many tasks follow.
    """
    source = source_of_project(access)
    filters = {**listing.filters_of(TasksQuery(q=q), source), "column_id": column.id}

    async def ask(after: Key | None) -> Rows[Task]:
        order = listing.BY_POSITION
        return await listing.list_tasks(reader, source, filters, sort=order, after=after, limit=CARDS_MAX)

    found = set[str]()
    async for page in iterate_pages(ask, await ask(None)):
        found |= {task.id for task in page}
        if page.next_key is not None and page.next_key >= last:
            break
    return found


# --- filters ----------------------------------------------------------------------------------------------------------


def fits(task: Any, filters: Mapping[str, str], now: int, has_words: Container[str] | None = None) -> bool:
    """Return whether a task, as the API returns it, matches the filters. `has_words` are the IDs that match `q`."""
    if has_words is not None and task.id not in has_words:
        return False
    for name, value in filters.items():
        if name == "assignee" and key_of(value) not in [key_of(person.login) for person in task.assignees]:
            return False
        if name == "label" and value not in task.labels:
            return False
        if name == "priority" and value != (task.priority or "none"):
            return False
        if name == "due" and not _is_due(task, value, now):
            return False
    return True


_DUE: Mapping[str, Sequence[DueSpan]] = {"overdue": ["overdue"], "week": ["today", "week"]}


def _is_due(task: Any, span: str, now: int) -> bool:
    """Return whether the deadline is in `span`: `none`, `overdue` or `week`. Any other span matches."""
    if span == "none":
        return task.deadline is None
    deadline = None if task.deadline is None else parse_rfc3339(task.deadline)
    is_completed = task.completed_at is not None
    return span not in _DUE or due_span(deadline, is_completed=is_completed, now=now, zone=reader_zone()) in _DUE[span]
