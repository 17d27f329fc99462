"""The page of a task with its fields, timers, subtasks, blockers, comments and history; each form changes one field."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC
from typing import Any

from msgspec import UNSET

from workhook.core import json
from workhook.core.clock import now_ms
from workhook.core.errors import Conflict, Forbidden, Invalid, Malformed, NotFound, require_found, say
from workhook.events.payloads import to_show
from workhook.http.calls import Response
from workhook.http.parameters import TITLE_MAX_CHARS
from workhook.identity.context import Write
from workhook.storage import Row
from workhook.web.activity import ActivityEntry, ProjectNames, found_in, mention_sentence, sentence
from workhook.web.files.view import icon_of
from workhook.web.frame.flash import Undo
from workhook.web.frame.markdown import Prose, find_named_tasks
from workhook.web.frame.names import Names, called, logins_of
from workhook.web.frame.paging import back_to, project_address
from workhook.web.frame.places import Places, Visit
from workhook.web.frame.sessions import safe_return_to
from workhook.web.frame.texts import gettext, text
from workhook.web.listing import BUSY, keep_time
from workhook.web.tasks.view import DONE, OPEN, digest, read_edit, read_task, says, typed_value, value_of
from workhook.work.board import columns
from workhook.work.board.tasks import actions, assignees, listing, queries
from workhook.work.board.tasks.imported_fields import own_fields
from workhook.work.board.tasks.inputs import PLAIN_FIELDS, TaskCreate, TaskEdit
from workhook.work.board.tasks.matching import QUERY_MAX_CHARS, words_of
from workhook.work.board.tasks.queries import NUMBER_DIGITS, AccessedTask, find_numbered, find_related
from workhook.work.board.tasks.recurrence import occurrence_after
from workhook.work.board.tasks.schemas import TERMS, Column, Task, completes
from workhook.work.discussion import actions as discussion
from workhook.work.discussion.schemas import CommentCreate, CommentEdit, TaskComment
from workhook.work.files.upload import limit_of
from workhook.work.history.activity.queries import mentions_task, prepare_mentions, read_task_history
from workhook.work.kernel.access import Access
from workhook.work.kernel.day_bounds import find_zone
from workhook.work.kernel.people import person_of_row
from workhook.work.kernel.scopes import source_of_project
from workhook.work.time.timesheets import actions as timesheets_actions
from workhook.work.time.timesheets import queries as timer_queries
from workhook.work.time.timesheets.schemas import TimesheetCreate

places = Places("task")
FIELDS = {"title", "column_id", *PLAIN_FIELDS, *TERMS} - {"parent_id"}


class Changed(Conflict):
    """The field has changed since the page was rendered."""


async def task_at(visit: Visit) -> tuple[Access, Task]:
    """Return the task in the path. Raises `NotFound` if it is not in the path's project."""
    access = await visit.access()
    task_id, project_id = visit.path("task_id"), access.repository.project_id
    return access, await actions.get_task(visit.database, visit.actor, task_id, project_id=project_id)


@places.get("/{owner}/{project}/tasks/{task_id}")
async def task(visit: Visit) -> Response:
    """Show a task, or redirect from its number to its page."""
    number = visit.path("task_id")
    if not (number.isascii() and number.isdigit()):
        return await _show(visit)
    access, wanted = await visit.access(), int(number[: NUMBER_DIGITS + 1])
    found = await find_numbered(visit.database, access.repository.id, [wanted])
    if wanted not in found:
        raise NotFound()
    return visit.done(f"/{access.repository.full_name}/tasks/{found[wanted]}")


async def _show(visit: Visit, *, status: int = 200, conflict: str = "") -> Response:
    """Show a task. `conflict` names a field that someone else changed, which is shown with both values."""
    access = await visit.follow()
    after = visit.query_id("after") or 0
    shown = await read_task(visit.database, visit.actor, access, visit.path("task_id"), after)
    yours = visit.fields.get(conflict, "") if conflict else ""
    logins = [each.login for each in shown["people"]]
    texts = [shown["task"].description, *(each.text for each in shown["comments"])]
    tasks = await find_named_tasks(visit.database, access, texts)
    return visit.page(
        "tasks/task.html",
        status=status,
        shown=shown,
        conflict=conflict,
        yours=yours,
        task=shown["task"],
        here=address(visit),
        people=Names(shown["people"]).by_login,
        names=shown["names"],
        prose=await Prose(logins, visit.actor.user.login, tasks).prepare(texts),
        icon_of=icon_of,
        limit=limit_of(visit.call),
        link=f"{visit.call.public_base.removesuffix(visit.call.prefix)}{address(visit)}",
    )


@places.post("/{owner}/{project}/tasks/{task_id}/edit", action="task.edit")
async def edit_task(visit: Visit) -> Response:
    """Change one field of a task. `was` is the digest of the value that the page showed."""
    name = visit.fields.get("field", "")
    access = await visit.access()
    if name not in FIELDS or name not in visit.fields:
        raise Malformed("Problems parsing the form")
    if name in TERMS:
        access.require_not_client()  # no response may reveal whether a client guessed the rate
    edit = read_edit(visit, name, access.repository.project_id, access.repository.currency)
    if getattr(edit, name) is UNSET:
        raise Invalid.at(name, say("{} must not be empty", name), code="missing")

    async def change(write: Write) -> tuple[Task, Task]:
        found = await actions.lock_task(write.tx, write.actor, visit.path("task_id"), edit)
        is_late = visit.fields.get("was", digest(found.task, name)) != digest(found.task, name)
        if is_late and not says(edit, name, found.task):
            raise Changed("Someone else changed this while you were editing.", code="changed")
        keep_time(visit, edit, found.task)
        return found.task, await actions.edit_task(write, found, edit)

    try:
        before, after = await visit.change(change, retry=BUSY)
    except Changed:
        await visit.load_frame()
        return await _show(visit, status=409, conflict=name)
    if value_of(before, name) == value_of(after, name):
        return visit.done(address(visit))
    typed = typed_value(name, value_of(before, name), access.repository.currency)
    undo = Undo(f"{address(visit)}/edit", {"field": name, name: typed, "was": digest(after, name)})
    message = gettext("The task was moved.") if name == "column_id" else gettext("Saved.")
    return visit.done(address(visit), message, undo=undo)


@places.post("/{owner}/{project}/tasks/{task_id}/labels", action="task.edit")
async def change_labels(visit: Visit) -> Response:
    return await _change_list(visit, "labels", lambda found: json.decode(found.labels))


@places.post("/{owner}/{project}/tasks/{task_id}/assignees", action="task.edit")
async def change_assignees(visit: Visit) -> Response:
    return await _change_list(visit, "assignees", lambda found: [each.login for each in found.assignees])


@places.post("/{owner}/{project}/tasks/{task_id}/checklist", action="task.edit")
async def change_checklist(visit: Visit) -> Response:
    """Add, tick, untick or remove a checklist item."""

    def changed(found: Task) -> dict[str, object]:
        sections: dict[str, dict[str, str]] = json.decode(found.sections)
        section, item, step = (visit.fields.get(name, "").strip() for name in ("section", "item", "step"))
        if not section or not item or step not in ("add", "tick", "untick", "remove"):
            raise Malformed("Problems parsing the form")
        items = sections.setdefault(section, {})
        if step == "remove":
            items.pop(item, None)
        elif step != "add" or item not in items:
            items[item] = DONE if step == "tick" else OPEN
        return {"sections": {name: each for name, each in sections.items() if each or name != section}}

    access = await visit.access()
    await _change(visit, access.repository.project_id, changed)
    return visit.done(f"{address(visit)}#checklists")


async def _change_list(visit: Visit, name: str, listed: Callable[[Task], list[str]]) -> Response:
    """Add a value to a list field of the task or remove one."""
    added, gone = visit.fields.get("add", "").strip(), visit.fields.get("remove")

    def changed(found: Task) -> dict[str, object]:
        after = dict.fromkeys([*listed(found), *([added] if added else [])])
        return {name: [each for each in after if each != gone]}

    access = await visit.access()
    await _change(visit, access.repository.project_id, changed)
    undo = Undo(f"{address(visit)}/{name}", {"add": gone}) if gone else None
    return visit.done(address(visit), gettext("“%(name)s” was removed.", name=gone) if gone else "", undo=undo)


async def _change(visit: Visit, project_id: str, changed: Callable[[Task], dict[str, object]]) -> None:
    """Lock the task and apply the fields that `changed` returns for it."""

    async def change(write: Write) -> None:
        found = await actions.lock_task(write.tx, write.actor, visit.path("task_id"), TaskEdit(project_id=project_id))
        seen = await assignees.visible_task(write.tx, found.access, found.task)
        await actions.edit_task(write, found, visit.form(TaskEdit, **changed(seen)))

    await visit.change(change, retry=BUSY)


@places.post("/{owner}/{project}/tasks/{task_id}/duplicate", makes=True, action="task.create")
async def duplicate_task(visit: Visit) -> Response:
    """Duplicate a task, right after the original."""
    access, found = await task_at(visit)
    may_set = {"hourly_rate": access.repository.role == "admin"}
    terms = {name: getattr(found, stored) for name, stored in TERMS.items() if may_set.get(name, True)}
    plain = {name: getattr(found, name) for name in PLAIN_FIELDS}
    parents = {found.parent_id} if found.parent_id else set[str]()
    related = await find_related(visit.database, access.repository.id, parents)
    zone = await find_zone(visit.database, access.repository.id) if found.repeat else UTC
    plain["parent_id"] = found.parent_id if found.parent_id in related else None
    if occurrence_after(found, now_ms(), zone) is None:
        plain["repeat"] = None
    create = TaskCreate(
        title=gettext("Copy of %(title)s", title=found.title)[:TITLE_MAX_CHARS],
        position=found.position + 1,
        fields=own_fields(json.decode(found.fields)),
        sections=json.decode(found.sections),
        assignees=[each.login for each in found.assignees],
        labels=json.decode(found.labels),
        **terms,
        **plain,
    )
    made = await visit.change(lambda write: actions.create_task(write, found.column.id, create), retry=BUSY)
    location = f"/{access.repository.full_name}/tasks/{made.id}"
    return visit.done(location, gettext("The task was duplicated. This is the copy."), undo=Undo(f"{location}/delete"))


@places.post("/{owner}/{project}/tasks/{task_id}/delete", action="task.delete")
async def delete_task(visit: Visit) -> Response:
    access = await visit.access()

    async def delete(write: Write) -> AccessedTask:
        found = await queries.lock_to_move(write.tx, write.actor, visit.path("task_id"), None)
        actions.require_project(found.access, access.repository.project_id)
        await actions.delete_task(write, found)
        return found

    gone = (await visit.change(delete, retry=BUSY)).task
    message = gettext("“%(title)s” was deleted.", title=gone.title)
    return visit.done(f"/{access.repository.full_name}", message, undo=Undo(f"{address(visit)}/restore"))


@places.post("/{owner}/{project}/tasks/{task_id}/restore", action="task.restore")
async def restore_task(visit: Visit) -> Response:
    project_id = (await visit.access()).repository.project_id
    task_id = visit.path("task_id")
    await visit.change(lambda write: actions.restore_task(write, task_id, project_id=project_id), retry=BUSY)
    return visit.done(address(visit))


def address(visit: Visit) -> str:
    return f"/{visit.path('owner')}/{visit.path('project')}/tasks/{visit.path('task_id')}"


timer_places = Places("timers")

_STEPS = {
    "pause": timesheets_actions.pause_timesheet,
    "resume": timesheets_actions.resume_timesheet,
    "finish": timesheets_actions.finish_timesheet,
}


@timer_places.post("/{owner}/{project}/tasks/{task_id}/timer", makes=True, action="timesheet.create")
async def start_timer(visit: Visit) -> Response:
    """Start a timer on a task, which pauses the visitor's other timer. Forms with `back` return to the board."""
    access = await visit.access()
    access.require_not_client()
    create = TimesheetCreate(task_id=visit.path("task_id"))
    await visit.change(lambda write: timesheets_actions.create_timesheet(write, access.repository.project_id, create))
    return visit.done(back_to(visit, project_address(visit)) if "back" in visit.fields else address(visit))


@timer_places.post("/{owner}/{project}/timesheets/{timesheet_id}/{step}", action="timesheet.edit")
async def change_timer(visit: Visit) -> Response:
    """Pause, resume or finish a timer, and return to the page that sent the form."""
    access = await visit.access()
    step, timesheet_id = _STEPS.get(visit.path("step")), visit.path("timesheet_id")
    found, _ = await timer_queries.find_timesheet(visit.database, visit.actor, timesheet_id)
    if step is None or found.repository.id != access.repository.id:
        raise NotFound()
    await visit.change(lambda write: step(write, timesheet_id))
    return visit.done(safe_return_to(visit.fields.get("back")))


subtask_places = Places("subtasks")


@subtask_places.post("/{owner}/{project}/tasks/{task_id}/subtasks", makes=True, action="task.create")
async def add_subtask(visit: Visit) -> Response:
    """Add a subtask to its parent's column, or to the first column of open tasks if that one completes tasks."""
    access, task = await task_at(visit)
    found = await columns.list_board_columns(visit.database, access.repository.id)
    column = next((each for each in found if each.id == task.column.id), None)
    if column is None or is_final(column):
        column = column_for(found, completed=False) or column
    column_id = require_found(column).id
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
    return completes(column.stage, column.finished)


def column_for(found: Sequence[Column], *, completed: bool) -> Column | None:
    return next((each for each in found if is_final(each) == completed), None)


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
    return visit.page("tasks/waits.html", task=task, here=address(visit), q=asked, found=found)


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


comment_places = Places("task_comments")


@comment_places.post("/{owner}/{project}/tasks/{task_id}/comments", makes=True, action="task_comment.create")
async def add_comment(visit: Visit) -> Response:
    await task_at(visit)
    more = {"private": True} if visit.fields.get("private") else {}
    create = visit.form(CommentCreate, "text", **more)
    await create.prepare()
    made = await visit.change(lambda write: discussion.create_task_comment(write, visit.path("task_id"), create))
    return visit.done(f"{address(visit)}#comment-{made.id}")


@comment_places.post("/{owner}/{project}/tasks/{task_id}/comments/{comment_id}/edit", action="task_comment.edit")
async def edit_comment(visit: Visit) -> Response:
    access, _ = await task_at(visit)
    # Browsers don't send an unticked checkbox. Clients don't have it.
    hidden = {} if access.is_client else {"private": "private" in visit.fields}
    edit = visit.form(CommentEdit, "text", **hidden)
    await edit.prepare()

    async def change(write: Write) -> None:
        await discussion.edit(write, await _lock(visit, write), edit)

    await visit.change(change)
    return visit.done(f"{address(visit)}#comment-{visit.path('comment_id')}")


@comment_places.post("/{owner}/{project}/tasks/{task_id}/comments/{comment_id}/delete", action="task_comment.delete")
async def delete_comment(visit: Visit) -> Response:
    await task_at(visit)

    async def delete(write: Write) -> None:
        await discussion.delete(write, await _lock(visit, write))

    await visit.change(delete)
    return visit.done(f"{address(visit)}#comments", gettext("The comment was deleted."))


async def _lock(visit: Visit, write: Write) -> discussion.Held[TaskComment]:
    """Lock the comment. Raises `NotFound` for a comment of another task."""
    comment_id = visit.call.path_integer("comment_id")
    held = await discussion.lock_task_comment(write.tx, write.actor, comment_id)
    if held.comment.task.id != visit.path("task_id"):
        raise NotFound()
    return held


preview_places = Places("task_preview")
DESCRIPTION, NEW = "description", "new"


@preview_places.post("/{owner}/{project}/tasks/{task_id}/preview", action="page.view")
async def preview(visit: Visit) -> Response:
    access, task = await task_at(visit)
    if not access.may_write:
        raise Forbidden(text("You have read-only access to this project."), code="missing_role")
    key, page_address = visit.fields.get("preview", ""), address(visit)
    name = "description" if key == DESCRIPTION else "text"
    people = await assignees.list_people(visit.database, access)
    tasks = await find_named_tasks(visit.database, access, [visit.fields.get(name)])
    await visit.load_frame()
    return visit.page(
        "tasks/preview.html",
        task=task,
        here=page_address,
        key=key,
        field=name,
        action=_action(page_address, key),
        text=visit.fields.get(name, ""),
        private="private" in visit.fields,
        was=visit.fields.get("was", ""),
        prose=await Prose([each.login for each in people], visit.actor.user.login, tasks).prepare(
            [visit.fields.get(name)]
        ),
    )


def _action(page_address: str, key: str) -> str:
    """Return the action of the form that saves the text. Raises `Malformed`."""
    if key in (DESCRIPTION, NEW):
        return f"{page_address}/{'edit' if key == DESCRIPTION else 'comments'}"
    if not (key.isascii() and key.isdigit()):
        raise Malformed("Problems parsing the form")
    return f"{page_address}/comments/{key}/edit"


history_places = Places("task_history")
ROWS = 30


@history_places.get("/{owner}/{project}/tasks/{task_id}/history")
async def task_history(visit: Visit) -> Response:
    """Show the events of a task, newest first. Not for clients, because it would reveal what is hidden from them."""
    access, task = await task_at(visit)
    access.require_not_client()
    before = visit.query_id("before")
    rows, more = await read_task_history(visit.database, access, task, before=before, limit=ROWS)
    titles = {each.id: each.title for each in await columns.list_board_columns(visit.database, access.repository.id)}
    people = await logins_of(visit.database, access)
    place = ProjectNames(f"/{access.repository.full_name}", titles, people)
    payloads = [json.decode_stored(to_show(row["payload"])) for row in rows]
    for row, payload in zip(rows, payloads, strict=True):
        if not row["published"]:
            await prepare_mentions(row["name"], payload, task.number)
    entries = [_entry(place, task, row, payload) for row, payload in zip(rows, payloads, strict=True)]
    return visit.page(
        "tasks/history.html",
        task=task,
        here=address(visit),
        entries=[entry for entry in entries if entry is not None],
        more=more,
        is_later=before is not None,
    )


def _entry(place: ProjectNames, task: Task, row: Row, payload: Any) -> ActivityEntry | None:
    """Return the entry of an event, or None if the event neither is about the task nor mentions it."""
    event, who = row["name"], person_of_row(row) if row["user_id"] is not None else None
    about = found_in(payload, "task", "id") if event == "task" else found_in(payload, event, "task", "id")
    named, published = called(who) if who else None, bool(row["published"])
    if about == task.id:
        words = sentence(place, named, event, row["action"], payload, published=published, among_itself=True)
    elif not published and mentions_task(event, payload, task.number):
        words = mention_sentence(place, named, event, payload)
    else:
        return None
    return ActivityEntry(row["id"], who, words, event, row["action"], row["created_at"])
