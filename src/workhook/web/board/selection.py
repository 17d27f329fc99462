"""The forms that change several cards at once, all of them or none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import UNSET, UnsetType

from workhook.core import json
from workhook.core.errors import Malformed
from workhook.core.text import one_line
from workhook.http.calls import Answer
from workhook.identity.context import Write
from workhook.web.board.board import BUSY, board_address
from workhook.web.frame import paging
from workhook.web.frame.flash import Undo
from workhook.web.frame.places import Places, Visit
from workhook.web.frame.texts import gettext, ngettext
from workhook.work.board.tasks import actions, bulk, queries
from workhook.work.board.tasks.bulk import TaskOperation
from workhook.work.board.tasks.schemas import Task

places = Places("selection")

CARDS_MAX = 200
CHOSEN = "card-"  # and an id: a card's box


@places.post("/{owner}/{project}/board/cards", action="task.bulk")
async def change_cards(visit: Visit) -> Answer:
    """Change the chosen cards: `step` says what of them."""
    access = await visit.access()
    chosen = [name.removeprefix(CHOSEN) for name in visit.fields if name.startswith(CHOSEN)]
    change = _CHANGES.get(visit.fields.get("step", ""))
    if change is None or len(chosen) > CARDS_MAX:
        raise Malformed(gettext("Choose at most %(number)s cards.") % {"number": CARDS_MAX})
    if not chosen:
        return visit.done(board_address(visit), gettext("No card is chosen."))

    async def apply(write: Write) -> Undo | None:
        also = filter(None, [visit.fields.get("column_id")])
        tasks = await queries.lock_of_project(write.tx, access, chosen, set(also))
        operations, undo = change(visit, tasks)
        if operations:
            await bulk.change_tasks(write, operations)
        return undo

    undo = await visit.change(apply, retry=BUSY)
    said = ngettext("%(num)s card was changed.", "%(num)s cards were changed.", len(chosen)) % {"num": len(chosen)}
    if visit.fields["step"] == "delete":
        said = ngettext("%(num)s card was deleted.", "%(num)s cards were deleted.", len(chosen)) % {"num": len(chosen)}
    return visit.done(board_address(visit), said, undo=undo)


@places.post("/{owner}/{project}/board/places", action="task.bulk")
async def put_back(visit: Visit) -> Answer:
    """Put cards where they were. Those that were deleted come out of the trash first."""
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
    """The operations that move tasks to the end of a column, in their order."""
    return [TaskOperation(action="move", id=each, column_id=column_id, project_id=project_id) for each in task_ids]


def places_of(cards: Mapping[str, Sequence[tuple[int, str]]]) -> str:
    """Positions and ids by column, as a field of a form: `col_1=0:tsk_1,3:tsk_2;col_2=…`."""
    return ";".join(
        f"{column}=" + ",".join(f"{position}:{task_id}" for position, task_id in sorted(each))
        for column, each in cards.items()
    )


def _read_places(text: str) -> list[tuple[str, int, str]]:
    """Column, position and id of each card. Raises `Malformed`."""
    found = []
    for part in filter(None, text.split(";")):
        column, _, cards = part.partition("=")
        for card in filter(None, cards.split(",")):
            position, _, task_id = card.partition(":")
            if not (position.isascii() and position.isdigit() and len(position) < 16):
                raise Malformed("Problems parsing the form")
            found.append((column, int(position), task_id))
    return found


# --- what can be changed ----------------------------------------------------------------------------------------------

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
    label, without = one_line(visit.fields.get("label", "")), "without" in visit.fields
    if not label:
        raise Malformed(gettext("Write the label that the cards are to have."))
    changed = {each.id: _with(json.decode(each.labels), label, without) for each in tasks}
    changed = {task_id: labels for task_id, labels in changed.items() if labels is not None}
    operations = [TaskOperation(action="edit", id=task_id, labels=labels) for task_id, labels in changed.items()]
    return operations, _undo(visit, "label", changed, label=label, without=without)


def _assign(visit: Visit, tasks: Sequence[Task]) -> Planned:
    login, without = visit.fields.get("login", ""), "without" in visit.fields
    if not login:
        raise Malformed(gettext("Choose who is to do the cards."))
    changed = {each.id: _with([person.login for person in each.assignees], login, without) for each in tasks}
    changed = {task_id: logins for task_id, logins in changed.items() if logins is not None}
    operations = [TaskOperation(action="edit", id=task_id, assignees=logins) for task_id, logins in changed.items()]
    return operations, _undo(visit, "assign", changed, login=login, without=without)


def _with(values: list[str], value: str, without: bool) -> list[str] | None:
    """With the value, or without it; None where nothing changes."""
    if (value in values) != without:
        return None
    return [each for each in values if each != value] if without else [*values, value]


def _undo(visit: Visit, step: str, changed: Mapping[str, object], *, without: bool, **fields: str) -> Undo | None:
    """The same form for those that were changed, the other way."""
    if not changed:
        return None
    fields |= {"step": step, "back": visit.fields.get("back", ""), **{CHOSEN + each: "1" for each in changed}}
    if not without:
        fields["without"] = "1"
    return Undo(f"{paging.project_address(visit)}/board/cards", fields)


def _priority(visit: Visit, tasks: Sequence[Task]) -> Planned:
    """Undone where all cards had the same before: one form says one priority."""
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
